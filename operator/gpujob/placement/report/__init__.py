"""The decision as text and JSON, and why a pool was not chosen.

Reading order: `summary` (the sentences) with `behind` (the figure that decided) and `passed_over` (pools that a warning puts last),
`decision_json`, `notes`, `why_not` (one pool against the chosen one).
"""
