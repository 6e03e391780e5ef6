"""Reads the catalog's YAML rows, and writes and loads the shipped JSON.

Reading order: `fields` (one checked row), `rows` and `runtime_rows` (rows to values), `extending` (rows that state only what differs),
`load` (files to a Catalog), `site` (what an installation adds), `shipped` (the generated JSON).
"""
