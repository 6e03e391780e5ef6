"""Pools of interchangeable devices: free nodes, names, prices, growth, reservations.

Reading order: `node`, `pool`, `fleet` (the values that placement reads); `naming` (which devices make one pool), `equipment`,
`runtime_class`, `pricing`; `free_nodes` (order of nodes), `reserve` and `ahead` (what is taken), `arriving` and `autoscaling`
(nodes to come).
"""
