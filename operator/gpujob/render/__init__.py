"""The children: a placed job becomes a child Job and, for a gang, a Service. Plain dicts, ready for POST.

Reading order: `children` (the entry point), `attempt` (names, labels, owner and gang that every part reads), `workload`
(Job and pod), `pod` (the parts of the pod, one module each), `devices` (how it gets its devices), `runner` and `runner_files` (the
operator's program in it).
"""
