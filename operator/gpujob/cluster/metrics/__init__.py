"""Speed and cost: one Prometheus collector that is a view of a snapshot."""
