"""The command line: the operator's own decision on a laptop, with or without a cluster, in the operator's words.

Reading order: `main` (the entry point: errors and exit codes), `commands` (the verbs), `jobs` (GPUJobs of a manifest),
`sources` (where the cluster comes from: a file or `live`), `planning` (jobs, fleet and catalog become decisions),
`tables` and `printing` (what is shown), `capture` (a cluster as a file, redacted).

Start-up time is part of the interface: what costs much to import (pydantic, YAML, rich, the Kubernetes client) is
imported by the function that needs it.
"""
