"""What an admin's GPUPool selects, costs and requires of the network.

Reading order: `selection` (which pool selects a node, its network, unreadable pools), `ownership_cost` (the price of owned GPUs).
"""
