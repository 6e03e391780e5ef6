"""Rules, alerts, dashboards: checked by Prometheus' own programs."""
