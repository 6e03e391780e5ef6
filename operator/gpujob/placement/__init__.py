"""The decision: which pool, nodes and image run a job, and why not the others. Values in, values out.

Reading order: `request` (a job with every default explicit), `images` (which image runs on a pool), `filters` (what
rejects a pool), `capacity` (which nodes have room for the gang now), `scoring` (how feasible candidates are ordered),
`engine` (the search and the Decision), `suggestions` (the nearest change that makes an impossible job fit), `report`
(the same words for table, JSON, condition, event).
"""
