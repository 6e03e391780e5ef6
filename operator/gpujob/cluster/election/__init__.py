"""The Lease: leader election and the fence before writes.

Reading order: `election` (its steps, the fence), `lease_thread` (where it runs).
"""
