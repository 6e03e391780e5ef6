"""What the cluster has: nodes and pods become device groups, and these become pools of interchangeable devices.

Reading order: `objects` (slim records of nodes and pods), `nvidia`, `amd` and `cloud` (labels become facts),
`devices` (the facts of each resource of a node), `claims` and `pricing`, `pools` (claimed and discovered pools with free capacity and
price), `cluster_file` and `published` (where nodes cannot be read from the API server).
"""
