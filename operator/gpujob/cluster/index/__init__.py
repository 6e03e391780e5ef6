"""Indexes over the cache: jobs, children and pods by owner, nodes without devices.

Reading order: `owned_objects` (jobs with their children, pods and Services, and what pods said last), `node_reader` (devices
of a node, and nodes without any), `cluster_index` (all of it, and the fleet).
"""
