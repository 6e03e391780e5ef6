"""How feasible candidates are ordered: speed, cost, score, reservations.

Reading order: `candidate` (the values of a decision), `speed`, `score` (the order of candidates), `waiting` (what a job waits for),
`pool_order` (the order of pools), `equal_pools` (one for all that are equal), `reservations` (what a waiting job holds).
"""
