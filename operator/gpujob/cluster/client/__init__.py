"""The HTTP client of the API server: transport, rate limit, errors, credentials, kubeconfig.

Reading order: `client` (verbs), `transport` (requests, retries, timeouts) with `rate_limit`, `outage_gate`, `line_reader` and
`server_clock`; `api_errors`, `paths`; `kubeconfig` and `bearer_token` (credentials).
"""
