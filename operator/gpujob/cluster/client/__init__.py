"""The HTTP client of the API server: transport, rate limit, errors, credentials, kubeconfig.

Reading order: `client` (verbs, lines of a watch), `transport` (requests, retries, timeouts) with `rate_limit`, `outage_gate` and
`server_clock`; `api_errors`, `paths`; `kubeconfig` (credentials).
"""
