"""The only room that talks to Kubernetes: mirrors the cluster, decides in rounds, creates children, reports.

Reading order: `main` and `shell` (start, stop, signals), `settings`, `client`, `watch` and `mirror` (what the cluster
has), `leader`, `kinds` and `book` (what belongs to which job), `reconcile` (the numbered steps), `children` and `report`
(the writes), `pools` (published pools), `endpoints` (metrics and health).
"""
