"""Container images with a framework: versions, architectures, consistency of their facts."""
