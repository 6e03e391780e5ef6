"""The state of a child Job's pods."""
