"""Facts about devices from node labels: cloud, device fraction, maintenance, conflicts."""
