"""What waiting jobs are told: the explanations of a decision, and the refresh of their numbers."""
