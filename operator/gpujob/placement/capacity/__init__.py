"""Whether a gang fits the nodes of a pool now: free devices, CPU, memory, topology, queue position.

Reading order: `pod_resources` (what a pod needs on a node), `node_filters` (nodes that never fit), `node_fit` (room for the
gang now) with `topology`, `busy_nodes` (why there is none, and who goes first) and `shortage` (why there
never is).
"""
