"""What the cluster has: nodes and pods become device groups, and these become pools of interchangeable devices.

Reading order: `kubernetes` (slim records of objects), `storage` (which nodes can mount a claim), `policy` (quotas, limit
ranges), `health` and `labels` and `vendors` (labels, conditions and taints become facts), `dra` and `devices` (the devices of
a node), `gpupools` (what an admin's GPUPool selects), `pools` (the values that placement decides on, and how they are
reserved), `assembly` and `sources` (which build them).
"""
