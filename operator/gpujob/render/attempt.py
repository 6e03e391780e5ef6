"""One attempt of a placed job, shared by all parts of its children; names, labels and gang are computed once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from gpujob.api.kinds.gpujob import GPUJob, GPUJobSpec, ShapeChoice
from gpujob.catalog.images.mirrors import Mirror
from gpujob.fleet.gpupools.selection import Fabric
from gpujob.fleet.kubernetes.host_ports import rendezvous_port
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.scoring.candidate import Choice
from gpujob.render.runner import Runner
from gpujob.values.names import child_name, label_value
from gpujob.values.quantity import format_dollars
from gpujob.values.vocabulary import FIELD_MANAGER, Annotation, Backend, Label, PreflightMode, Vendor

Manifest = dict[str, Any]
"""A Kubernetes object or a part of one, as JSON has it."""

PORT: Final = 29500
"""torchrun's own default port; pods do not share a network, so it is free in every one."""

HINT_LIMIT: Final = 60_000
"""The most characters of a placement hint; the API server takes 262,144 for all annotations of an object."""


@dataclass(frozen=True)
class Numbered:
    """A job and the number of an attempt (from 1): the names and the owner of the attempt's objects."""

    job: GPUJob
    number: int

    @cached_property
    def name(self) -> str:
        """The name of the child Job and of its Service."""
        return child_name(self.job.metadata.name, self.uid, self.number)

    @property
    def namespace(self) -> str:
        """The job's namespace; a child elsewhere would be garbage-collected, because owners do not cross namespaces."""
        return self.job.metadata.namespace or "default"

    @property
    def uid(self) -> str:
        """The job's uid; empty for a job outside an API server."""
        return self.job.metadata.uid or ""

    @property
    def selector(self) -> dict[str, str]:
        """The labels that only this attempt's pods share."""
        return {Label.JOB_UID: label_value(self.uid), Label.ATTEMPT: str(self.number)}

    @property
    def labels(self) -> dict[str, str]:
        """The labels of children and pods."""
        return {Label.MANAGED_BY: FIELD_MANAGER, Label.JOB: label_value(self.job.metadata.name), **self.selector}

    def metadata(self, **annotations: str) -> Manifest:
        """The metadata of a child: the job's namespace and the job as its controller, under its full name."""
        owner = {
            "apiVersion": self.job.api_version,
            "kind": self.job.kind,
            "name": self.job.metadata.name,
            "uid": self.uid,
            "controller": True,
            # True would need the right to update finalizers wherever OwnerReferencesPermissionEnforcement is on.
            "blockOwnerDeletion": False,
        }
        return {
            "name": self.name,
            "namespace": self.namespace,
            "labels": self.labels,
            "annotations": {Annotation.JOB_NAME: self.job.metadata.name, **annotations},
            "ownerReferences": [owner],
        }


@dataclass(frozen=True)
class Attempt(Numbered):
    """An attempt of a job with its choice."""

    choice: Choice
    digest: str = ""
    """The digest of the decision."""
    hint: Mapping[str, Any] | None = None
    """The decision for the child's annotation; None: derived from the choice."""
    runner: Runner | None = None
    """The runner's files; None: the image cannot run them (no Python, no shell), and the pod gets none."""
    save_seconds: int | None = None
    """Seconds that the slowest save of a checkpoint took in earlier attempts; None: unknown."""
    mirrors: tuple[Mirror, ...] = ()
    """Where the images of volumes are pulled from; the chosen image is named as it is pulled already."""
    spec_digest: str = ""
    """The digest of what of the job's spec cannot change while the child runs; empty outside an operator."""

    @property
    def spec(self) -> GPUJobSpec:
        """What the user asks for."""
        return self.job.spec

    @property
    def pool(self) -> Pool:
        """The chosen pool."""
        return self.choice.candidate.pool

    @property
    def image(self) -> str:
        """The chosen image."""
        return self.choice.candidate.runtime.image

    @property
    def backend(self) -> Backend:
        """The software stack of the chosen image."""
        return self.choice.candidate.runtime.backend

    @property
    def amd(self) -> bool:
        """Whether the chosen devices are AMD's."""
        return self.pool.vendor is Vendor.AMD

    @property
    def nodes(self) -> int:
        """Pods of the gang, one for each chosen node."""
        return len(self.choice.nodes)

    @property
    def gang(self) -> bool:
        """Whether pods must find each other."""
        return self.nodes > 1

    @property
    def fabric(self) -> Fabric | None:
        """The pool's network settings for pods of a gang; None for a single pod."""
        return self.pool.fabric if self.gang else None

    @property
    def on_host_network(self) -> bool:
        """Whether the pods share the network of their hosts."""
        return self.fabric is not None and self.fabric.host_network

    @property
    def port(self) -> int:
        """The rendezvous port of the gang: on the host's network every attempt needs its own."""
        return rendezvous_port(self.name) if self.on_host_network else PORT

    @property
    def gpus(self) -> int:
        """GPUs of each pod."""
        return self.choice.candidate.gang.gpus_per_node

    @property
    def entry(self) -> ShapeChoice | None:
        """The entry of spec.shapes that was chosen; None when the job has none."""
        index = self.choice.candidate.gang.entry
        return None if index is None else self.spec.shapes[index]

    @property
    def alone(self) -> bool:
        """Whether the program is one process on one GPU in every shape that the job allows, so that it needs no rendezvous."""
        spec = self.spec
        sized_by_model = spec.model is not None and spec.gpus_per_node is None and not spec.shapes
        ways = ((way.nodes or 1) * (way.gpus_per_node or 1) for way in spec.shapes or (spec,))
        return self.nodes * self.gpus == 1 and not sized_by_model and all(gpus == 1 for gpus in ways)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The program's arguments: the chosen shape's, else the job's."""
        return (self.entry and self.entry.args) or self.spec.args

    @property
    def preflight(self) -> PreflightMode:
        """The effect of a failed preflight."""
        return PreflightMode(self.spec.preflight or PreflightMode.REQUIRED)

    @property
    def checks(self) -> bool:
        """Whether the pod begins with a preflight."""
        return self.runner is not None and self.preflight is not PreflightMode.DISABLED

    @property
    def reports(self) -> bool:
        """Whether the runner measures the program; without a preflight only if the job requests it."""
        return self.checks or (self.runner is not None and self.spec.telemetry is not None)

    def hint_text(self) -> str:
        """The choice, as compact JSON with the members of status.placement: it survives a crash before the status write."""
        record = dict(self._chosen() if self.hint is None else self.hint)
        text = _compact(record)
        # The pod's affinity names the nodes too, so a very large gang leaves them out here.
        return text if len(text) <= HINT_LIMIT else _compact({**record, "nodeNames": []})

    def _chosen(self) -> Manifest:
        candidate = self.choice.candidate
        record = {
            "pool": self.pool.family,
            "vendor": self.pool.vendor.value,
            "accelerator": self.pool.accelerator_id,
            "nodes": self.nodes,
            "gpusPerNode": self.gpus,
            "nodeNames": list(filter(None, self.choice.nodes)),
            "provision": candidate.provision or None,
            "image": self.image,
            "runtime": candidate.runtime.name,
            "pricePerHour": None if candidate.price_per_hour is None else format_dollars(candidate.price_per_hour),
            "priceSource": self.pool.price.source if self.pool.price else None,
            "digest": self.digest or None,
        }
        return {key: value for key, value in record.items() if value is not None}


_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def _compact(record: Manifest) -> str:
    return _ENCODER.encode(record)
