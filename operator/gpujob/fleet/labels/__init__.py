"""Facts about devices from node labels: cloud, device fraction, maintenance, conflicts.

Reading order: `facts` (what labels and catalog report about a device) with `conflicts` and `device_fraction`; `cloud` (origin of a
node), `faults` and `maintenance` (its health), `catalog_suggestion` (the row of an unknown device).
"""
