"""What the command line reads: options, manifests, clusters."""
