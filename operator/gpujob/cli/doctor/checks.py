"""All checks in their order, and the findings of one reading of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from gpujob.cli.doctor import installation, monitoring, namespace, nodes, pools, uninstallation
from gpujob.cli.doctor.facts import Facts
from gpujob.cli.doctor.finding import Found, Level

Checks = tuple[Callable[[Facts], Iterator[Found]], ...]

CHECKS: Final[Checks] = (
    installation.kubernetes,
    installation.crds,
    installation.operator,
    nodes.device_plugins,
    nodes.labellers,
    pools.labels,
    pools.node_states,
    nodes.runtime_classes,
    nodes.toolkits,
    pools.drivers,
    nodes.kernels,
    pools.groups,
    pools.host_access,
    pools.health,
    pools.prices,
    pools.catalog_age,
    namespace.pod_security,
    namespace.monthly_budgets,
    namespace.pools_of_namespace,
    namespace.rights,
    monitoring.selectors,
    monitoring.dashboards,
)

BEFORE_UNINSTALL: Final[Checks] = (
    uninstallation.kept,
    uninstallation.running,
    uninstallation.waiting,
    uninstallation.leaving,
)
"""The checks of `doctor --before-uninstall`, in their place."""

EXIT_CODES: Final = {Level.ERROR: 5, Level.WARNING: 0, Level.UNKNOWN: 0, Level.OK: 0}


def findings(facts: Facts, checks: Checks = CHECKS) -> list[Found]:
    """What every check finds, in the order of the checks."""
    return [found for check in checks for found in check(facts)]


def exit_code(found: Iterable[Found]) -> int:
    """5 when something is wrong, else 0."""
    return max((EXIT_CODES[each.level] for each in found), default=0)
