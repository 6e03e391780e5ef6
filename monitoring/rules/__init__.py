"""All groups of rules, in the order in which they build on each other."""

from monitoring.rules.alerts import ALERTS
from monitoring.rules.devices import DEVICES
from monitoring.rules.jobs import JOBS

GROUPS = (DEVICES, JOBS, ALERTS)
