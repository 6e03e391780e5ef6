"""What the cluster has: nodes and pods become device groups, and these become pools of interchangeable devices.

Reading order: `objects` (slim records of nodes and pods), `nvidia`, `amd` and `cloud` (labels become facts),
`devices` (the facts of each resource of a node), `pools` (claimed and discovered pools, free capacity, prices),
`publish` (discovered pools as GPUPool objects).
"""
