"""What the cluster has: nodes and pods become device groups, and these become pools of interchangeable devices.

Reading order: `objects` (slim records of nodes and pods) and `manifests` (which reads them), `nvidia`, `amd` and `cloud`
(labels become facts), `devices` (the facts of each resource of a node), `claims` (which admin's GPUPool takes a node),
`naming` (which devices are interchangeable), `usage` and `taints` (what is free), `pools` (the values that placement
decides on), `claimed` and `read` (which make them), `pricing`; `cluster_file` and `published` (where nodes cannot be read
from the API server).
"""
