"""What the pods of a child Job show."""
