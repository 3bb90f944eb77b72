"""Instruction counts and imports of the shared objects, compared with what is on record."""
