"""Cluster files: jobs, projections of objects, reservations.

Reading order: `projection` (what is kept of an object), `jobs` (waiting jobs and children), `reservations`.
"""
