"""Kubernetes objects as small records, parsed from what the API server sends."""
