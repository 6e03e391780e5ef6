"""Cluster files: jobs, projections of objects, reservations.

Reading order: `projection` (what is kept of an object), `selected_labels`, `jobs` (waiting jobs and children), `reservations`.
"""
