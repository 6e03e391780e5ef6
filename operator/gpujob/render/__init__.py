"""The children: a placed job becomes a child Job and, for a gang, a Service. Plain dicts, ready for POST.

Reading order: `children` (the entry), `attempt` (what every part asks: names, labels, owner, the shape),
`service`, then the pod from the outside in: `workload` (Job and pod), `pinning` (where it runs), `security` (whom it
runs as), `container` with `devices`, `resources` and `claims`, `folders` (HOME, caches, /dev/shm), `code` (the copy of
the user's code), `runner` with `reporting` and `preflight` (what of ours runs in the pod), `environment` with `torchrun`
(who meets whom) and the vendors' parts `amd` and `nvidia`.
"""
