"""The commands that the documentation shows, executed."""
