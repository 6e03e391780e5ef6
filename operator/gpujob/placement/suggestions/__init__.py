"""The nearest fix for a job that does not fit: proposals, their search and their wording.

Reading order: `proposal` (one change, and its words), `costs` (what each costs), `steps` (changes together, and their
order), `search` (the nearest fix), `repairs` (which changes answer which reason), its sources `constraints`, `requests`,
`model_memory`, `namespace_limits` and `spelling`, `smaller_gang` (what would start now).
"""
