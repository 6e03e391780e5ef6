"""What the checks read: a cluster's objects by kind, its fleet, and what only a live cluster knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.pools.fleet import Fleet
from gpujob.values.untrusted import one_line, table

Raw = Mapping[str, Any]


def name_of(raw: Raw) -> str:
    """The name of an object as messages show it: on one line, and no longer than a name can be."""
    return one_line(str(table(raw, "metadata").get("name", ""))[:253])


Right = tuple[str, str, str, bool]
"""Verb, API group, resource with its subresource, and whether it is of the namespace alone."""


@dataclass(frozen=True)
class Live:
    """What a live cluster reports besides its objects; None or a missing entry: this account may not read it."""

    version: str = ""
    """The API server's gitVersion."""
    schemas: Raw | None = None
    """The OpenAPI document of our group."""
    rights: Mapping[Right, bool] = field(default_factory=dict)
    """What the asking account may do."""
    user: str = ""
    """The name of that account, empty where the API server does not say it."""
    deployments: Sequence[Raw] | None = None
    """Those of the chart in the operator's namespace."""
    lease: Raw | None = None
    prometheuses: Sequence[Raw] | None = None
    """The Prometheus objects; empty where the cluster does not have the kind."""
    monitors: Sequence[Raw] | None = None
    """ServiceMonitors, PodMonitors and PrometheusRules of the chart."""
    dashboards: Sequence[Raw] | None = None
    """The chart's ConfigMaps of dashboards."""
    crds: Sequence[Raw] | None = None
    """The CustomResourceDefinitions of our group; only for a check before an uninstallation."""
    jobs: Sequence[Raw] | None = None
    """The GPUJobs of all namespaces; only there, too."""


@dataclass(frozen=True)
class Facts:
    """What all checks read."""

    kinds: Mapping[str, Sequence[Raw]]
    """The cluster's objects by kind."""
    fleet: Fleet
    catalog: Catalog
    namespace: str
    """The namespace of the jobs."""
    operator_namespace: str
    now: str
    """The time in RFC 3339."""
    live: Live | None = None
    """None: the objects come from a file."""

    @property
    def nodes(self) -> Sequence[Raw]:
        """The Node objects; none where they may not be read."""
        return self.kinds.get("Node", ())

    @property
    def pods(self) -> Sequence[Raw]:
        """The Pod objects that hold something."""
        return self.kinds.get("Pod", ())
