"""Many jobs at once: the order of the queue, and one snapshot in which each placed job reserves its devices."""
