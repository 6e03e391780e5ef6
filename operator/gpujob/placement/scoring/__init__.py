"""How feasible candidates are ordered: speed, cost, score, reservations."""
