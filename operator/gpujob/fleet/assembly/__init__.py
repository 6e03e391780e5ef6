"""Builds pools from nodes, pods, reservations and future nodes.

Reading order: `usage` (what pods use), `mounts` (which volume claims they mount), `reservations` (what is reserved, also of
quotas), `volumes_taken` (PersistentVolumes that claims are about to take), `node_state` (a node of a pool), `admin_pool` (pools of
GPUPools) with `host_devices` and `future_nodes`, `levels` (what equal devices differ in), `admin_parts` (parts of GPUPools),
`joined_pools` (discovered pools together).
"""
