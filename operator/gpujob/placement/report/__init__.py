"""The decision as text and JSON, and why a pool was not chosen."""
