"""Messages of waiting jobs: the explanations of a decision, and the refresh of their numbers."""
