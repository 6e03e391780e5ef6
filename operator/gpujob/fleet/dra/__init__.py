"""Devices that DRA drivers offer: resource slices, taints, inventory, claim requests.

Reading order: `resource_slices` (the objects), `device_taints`, `inventory` (devices and allocations by node), `claim_request`
(how a pod requests them).
"""
