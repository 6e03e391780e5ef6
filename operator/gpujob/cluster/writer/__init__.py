"""Writes to the API server: children, statuses, pools, events."""
