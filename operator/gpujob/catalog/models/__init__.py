"""Models by name: dimensions, code kinds and the names that they have."""
