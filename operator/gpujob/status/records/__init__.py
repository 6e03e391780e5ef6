"""Records of GPUJobs, Jobs and pods, and of what preflight and rendezvous write.

Reading order: `objects` (the records), `read_objects` (from the API server), `refused_pods` (what it reported about pods that it
did not make), and what a pod's program leaves: `preflight` with `preflight_messages`, `rendezvous`, `gpu_memory`, `last_words` with
`device_words`.
"""
