"""Owner, waits, cost and progress of a child."""
