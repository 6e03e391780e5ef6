"""Volumes: which nodes can mount a PersistentVolumeClaim.

Reading order: `volume_ties` (what a volume requires of a node), `volume_records` (claims, volumes and classes as read),
`claim_volumes` (the nodes of a claim, bound or not, and who mounts it), `volume_binding` (several claims of one pod
that are not bound), `described_volumes` (those of a cluster description).
"""
