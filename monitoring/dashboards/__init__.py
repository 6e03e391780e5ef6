"""All dashboards; each is a module."""

from monitoring.dashboards.fleet import FLEET
from monitoring.dashboards.job import JOB
from monitoring.dashboards.operator import OPERATOR
from monitoring.dashboards.vendors import VENDORS

DASHBOARDS = (FLEET, JOB, VENDORS, OPERATOR)
