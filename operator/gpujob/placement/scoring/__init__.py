"""How feasible candidates are ordered: speed, cost, score, reservations.

Reading order: `candidate` (the values of a decision), `speed`, `score` (the order of candidates), `pool_order` (the order of
pools), `reservations` (what a waiting job holds).
"""
