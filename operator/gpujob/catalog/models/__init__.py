"""Models by name: shapes, code kinds and the names that they go by."""
