"""What all tests share: the folder with `builders`, and a hypothesis profile for slow machines."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("gpujob", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gpujob")
