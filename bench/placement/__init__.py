"""How fast placement is on a fleet of 10,000 nodes: `python -m bench.placement`."""
