"""The search for the best candidate: gang sizes, evaluation, decision, exploration."""
