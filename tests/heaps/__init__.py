"""Heaps seen from outside: what they cost, and what a reader in another process sees of them."""
