"""The port of the pod.

Reading order: `shared` (the folder of the pod's processes), `exposition` (the page), `listener` (short HTTP requests), `server`
(GET /metrics).
"""
