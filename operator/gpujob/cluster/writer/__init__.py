"""Writes to the API server: children, statuses, pools, events.

Reading order: `writes` with `taken_names` (whose an object of a child's name is), `child_errors` (what a refusal means),
`outdated_crds`.
"""
