"""`doctor`: what of a cluster keeps jobs from its GPUs, or from being seen there; each finding with its remedy."""
