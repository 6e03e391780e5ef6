"""Tables, pages and JSON of the command line.

Reading order: `drawing` (how a table is drawn), `cells` (one value), then what is shown: `plan_tables` with `offers` (-o wide),
`pool_tables` and `pools_json`, `findings`, `reasons`, `children`, `page` (HTML).
"""
