"""The program: settings, kopf's shell, the HTTP server, and the snapshot behind /metrics."""
