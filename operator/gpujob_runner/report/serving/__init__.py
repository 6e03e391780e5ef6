"""The pod's HTTP port: the figures of all its processes.

Reading order: `shared` (the folder of the pod's processes), `exposition` (the page), `listener` (short HTTP requests), `server`
(GET /metrics).
"""
