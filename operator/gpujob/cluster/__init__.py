"""The only room that talks to Kubernetes: mirrors the cluster, decides in rounds, creates children, reports.

Reading order: `__main__` and `shell` (start, stop, signals), `settings`, `operator` (one process put together); `client`
(the verbs of the API server) on `transport`, `pace`, `connection`, `credentials`, `resources`, `lines` and `api_errors`;
`watch`, `mirror` and `shelf` (what the cluster has), `kinds` and `book` (what belongs to which job); `reconcile` (the numbered
steps) with `desk` (what is known between rounds), `looking`, `deciding`, `retelling` and `steps`; `writer` (the writes), `leader`,
`pools` (published pools), `views` and `endpoints` (metrics and health).
"""
