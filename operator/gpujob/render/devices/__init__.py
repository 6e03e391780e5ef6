"""How a pod gets its devices: limits, resource claims, vendor settings.

Reading order: `resources` (requests of a container), `resource_claim` (DRA), `nvidia` and `amd` (what each vendor
needs besides).
"""
