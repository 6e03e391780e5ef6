"""How a pod gets its devices: limits, resource claims, vendor settings."""
