"""What an admin's GPUPool selects, costs and requires of the network.

Reading order: `selection` (which pool selects a node), `unreadable`, `ownership_cost` (the price of owned GPUs), `fabric` (the
network between nodes).
"""
