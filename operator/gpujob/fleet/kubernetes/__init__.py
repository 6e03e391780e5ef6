"""Kubernetes objects as small records, parsed from what the API server sends.

Reading order: `objects` (records of nodes and pods), `parse` with `quantities`, `pod_requests` and `taints`; one module for
each other fact: `namespaces`, `priority_classes`, `runtime_classes`, `image_volumes`,
`host_ports`.
"""
