"""What the command line reads: options, manifests, clusters.

Reading order: `options` (the grammar of a verb) and `spans` (of time), `request` (its arguments as one value), `jobs` (manifests),
`sources` (files or a cluster) with `live` (lists), `connection` (credentials and HTTP) and `impersonation` (acting as another
account), `site` (the catalog of a plan).
"""
