"""Indexes over the cache: jobs, children and pods by owner, nodes without devices.

Reading order: `owner_index` (one kind by owner), `departed_pods` (what pods said last), `owned_objects` (jobs with their children,
pods and Services), `node_reader` (devices of a node), `nodes_without_devices`, `cluster_index` (all of it, and the fleet).
"""
