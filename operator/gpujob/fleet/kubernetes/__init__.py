"""Kubernetes objects as slim records, parsed from what the API server sends."""
