"""Tests of the isolated-thread runtime: small programs run both ways, outputs and exit statuses compared."""
