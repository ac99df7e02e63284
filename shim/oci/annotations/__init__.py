"""Annotations: the table of all that are known, and reading those of one spec."""
