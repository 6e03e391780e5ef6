"""The state of a child Job's pods, and whether one ran out of memory."""
