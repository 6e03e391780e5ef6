"""The decision: which pool, nodes and image run a job, and why not the others. Values in, values out.

Reading order: `demand` (a job with every default explicit), `sizing` (the GPUs that its model needs), `problems` (what is
wrong in the job itself), `rules` (one for each reason) and `asking` (which of them a pool is asked), `image_rules`,
`suitability` and `refusals` (the same of images), `capacity` (which nodes have room), `candidates`, `ranking`, `decide` (the
Decision), `choose` (its choice alone, from the best of `places` on), `holding` and `turns` (what is held for a job that
waits, and who goes first), `fixes` (the nearest change that would make an impossible job fit), `explain` (the same words
for table, JSON, condition and event).
"""
