"""Reads the catalog's YAML rows, and writes and loads the shipped JSON."""
