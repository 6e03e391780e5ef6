"""Cluster files: jobs, projections of objects, reservations.

Reading order: `projection` (what is kept of an object), `gpujobs`, `jobs` (waiting jobs and children), `reservations`.
"""
