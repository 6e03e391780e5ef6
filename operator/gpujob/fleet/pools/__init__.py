"""Pools of interchangeable devices: free nodes, names, prices, growth, reservations."""
