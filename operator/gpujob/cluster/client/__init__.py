"""The HTTP client of the API server: transport, rate limit, errors, credentials, kubeconfig."""
