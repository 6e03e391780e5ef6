"""What the command line reads: options, manifests, clusters.

Reading order: `options` (the grammar of a verb), `request` (its arguments as one value), `jobs` (manifests), `sources` (files
or a cluster) with `live` (lists) and `connection` (credentials and HTTP), `site` (the catalog of a plan).
"""
