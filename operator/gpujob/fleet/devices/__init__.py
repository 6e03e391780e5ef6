"""Groups of devices on nodes, from extended resources and from resource slices.

Reading order: `group` (from extended resources), `from_slices` (from DRA) with `slice_labels`, `card_views` and
`shared_counters`; `shared_cards` (one card in several resources), `last_known` (while a labeller restarts).
"""
