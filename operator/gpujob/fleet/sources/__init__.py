"""Builds a fleet from a snapshot, from watch events or from a cluster file.

Reading order: `build` (nodes and pods to pools), `incremental` with `node_changes` (the same, change by change), `cluster_file`
with `kubectl_yaml` and `ignored_values` (from a file), `published_pools` (from GPUPools alone).
"""
