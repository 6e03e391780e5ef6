"""Builds a fleet from a snapshot, from watch events or from a cluster file."""
