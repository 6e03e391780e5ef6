"""How fast, for how much: one Prometheus collector that is a view of a snapshot."""
