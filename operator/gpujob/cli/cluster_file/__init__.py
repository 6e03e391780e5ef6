"""Cluster files: jobs, projections of objects, reservations."""
