"""Compositions in TOML: built, run, and refused."""
