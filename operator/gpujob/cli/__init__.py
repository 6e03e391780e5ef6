"""The command line: the operator's own decision on a laptop, with or without a cluster, in the operator's words.

Reading order: `main` (the entry point: errors and exit codes), `verbs` (one module a verb), `input` (manifests, and where the
cluster comes from), `cluster_file` (a cluster as a file, redacted), `planning` (jobs, fleet and catalog become decisions),
`registry` (what a tag of an image is today), `output` and `printing` (tables, pages, JSON), `doctor` (checks of an installation).

Start-up time is part of the interface: what costs much to import (pydantic, YAML, rich, the Kubernetes client) is
imported by the function that needs it.
"""
