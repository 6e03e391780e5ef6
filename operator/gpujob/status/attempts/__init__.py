"""Who owns a child, how long to wait for it, what it costs, how far it is."""
