"""The only room that talks to Kubernetes: caches the cluster, reconciles jobs, creates children, reports.

Reading order: `app` (one process put together: settings, kopf's shell, HTTP server), `controller` (one job's round, the
scheduling round, pools, profiles), `queue` (requeue and backoff), `messages` (explanations of waiting jobs), `writer` (all
writes), `index` (which child and pods belong to which job), `cache` (list and watch into memory), `election` (the Lease and the
fence), `client` (HTTP), `telemetry` (readings of running pods), `metrics`.
"""
