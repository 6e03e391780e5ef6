"""The training container's variables: the operator's, then defaults, the pool's, the job's, the backend's and the shape's.

The API server compares every variable of a pod at each write of the pod and of its Job, so a pod has few that no program reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from gpujob.api.fields.base import Shape
from gpujob.api.kinds.gpujob import EnvironmentByBackend
from gpujob.catalog.devices.architecture import OVERRIDE
from gpujob.render.attempt import Attempt, Manifest
from gpujob.render.devices import amd, nvidia
from gpujob.render.pod import checkpoint, folders, host_devices, rendezvous
from gpujob.values.vocabulary import REPORT_OPTIMIZER, Backend, Reason

_KEPT: Final = ("HOME", "TMPDIR", "OMP_NUM_THREADS")
"""Defaults that act on the preflight too: where it writes, and how many threads torch starts."""

ON_MENTION: Final = frozenset({"GPUJOB_NAMESPACE", "GPUJOB_VENDOR", "GPUJOB_ACCELERATOR", "GPUJOB_POOL"})
"""Facts that a pod gets where its command, arguments or variables name them."""

_REFERENCE: Final = re.compile(r"\$\(([^)]+)\)")

RESERVED_PREFIXES: Final = ("GPUJOB_", "PET_")


def environment(attempt: Attempt) -> list[Manifest]:
    """Each variable once; the operator's come first, so that the others can use $(GPUJOB_ATTEMPT)."""
    given = [entry for entry in _given(attempt) if not _reserved(str(entry["name"]))]
    texts = (*attempt.spec.command, *attempt.arguments, *(str(entry.get("value", "")) for entry in given))
    rare = ON_MENTION | _of_gangs(attempt)
    unread = {name for name in rare if not any(name in text for text in texts)}
    ours = [entry for entry in (*_reserved_variables(attempt), *_defaults(attempt)) if entry["name"] not in unread]
    return _merged((*ours, *given))


def for_preflight(attempt: Attempt, words: Iterable[str]) -> list[Manifest]:
    """Those that the preflight gets: what the pool and the job set, variables about devices and folders, and what these and its
    `words` refer to. Each variable is kept three times over, in the Job, its pod and their managed fields.
    """
    every = environment(attempt)
    given = (*_given(attempt), *_visible(attempt))
    wanted = {*_KEPT, *(str(entry["name"]) for entry in given), *_references(words)}
    kept: list[Manifest] = []
    # A value refers to variables before it only.
    for entry in reversed(every):
        if entry["name"] in wanted:
            kept.insert(0, entry)
            wanted |= _references([str(entry.get("value", ""))])
    return kept


def _of_gangs(attempt: Attempt) -> frozenset[str]:
    """Variables of a rendezvous, for a program that never has one: launchers have the same values as their own defaults. A program
    that makes a process group of one finds MASTER_ADDR and MASTER_PORT, which PyTorch has no defaults for.
    """
    if not attempt.alone:
        return frozenset()
    entries = (*rendezvous.for_torchrun(attempt), *rendezvous.for_other_programs(attempt))
    return frozenset(str(entry["name"]) for entry in entries) - {"MASTER_ADDR", "MASTER_PORT"}


def caches_of_the_job(attempt: Attempt) -> list[str]:
    """The names of cache folders that the pool or the job sets; others that the preflight finds are the image's."""
    return sorted({str(entry["name"]) for entry in _given(attempt)} & folders.CACHES)


def as_written(shapes: Iterable[Shape]) -> list[Manifest]:
    """Parts of the job in Kubernetes' own form, as JSON, without unset members."""
    return [shape.model_dump(mode="json", by_alias=True, exclude_defaults=True) for shape in shapes]


def _reserved_variables(attempt: Attempt) -> list[Manifest]:
    pool = attempt.pool
    facts = {
        "GPUJOB_NAME": attempt.job.metadata.name,
        "GPUJOB_NAMESPACE": attempt.namespace,
        "GPUJOB_ATTEMPT": str(attempt.number),
        "GPUJOB_NODES": str(attempt.nodes),
        "GPUJOB_GPUS_PER_NODE": str(attempt.gpus),
        "GPUJOB_VENDOR": pool.vendor.value,
        "GPUJOB_BACKEND": attempt.backend.value,
        "GPUJOB_ACCELERATOR": pool.accelerator_id,
        "GPUJOB_POOL": pool.family,
    }
    if saved_in := checkpoint.folder(attempt.spec):
        facts["GPUJOB_CHECKPOINT_DIR"] = saved_in
    named: list[Manifest] = [{"name": name, "value": value} for name, value in facts.items()]
    return [*named, *rendezvous.for_torchrun(attempt), *_visible(attempt)]


def _visible(attempt: Attempt) -> list[Manifest]:
    """The variable for NVIDIA's container runtime; none if a device plugin or a DRA driver sets it."""
    if attempt.amd:
        return [nvidia.NO_DEVICES]
    return [host_devices.ALL_DEVICES] if attempt.pool.host_devices else []


def _defaults(attempt: Attempt) -> list[Manifest]:
    # OpenMP counts the host's cores, not the container's: without this, threads of one pod fight for its share.
    threads = max(1, attempt.choice.needs.millicores // 1000 // attempt.gpus)
    return [
        *rendezvous.for_other_programs(attempt),
        *checkpoint.of_launchers(attempt),
        *folders.defaults(attempt.spec),
        {"name": "OMP_NUM_THREADS", "value": str(threads)},
        *amd.defaults(attempt),
    ]


def _given(attempt: Attempt) -> Iterable[Manifest]:
    by_backend = attempt.spec.env_by_backend or EnvironmentByBackend()
    of_backend = by_backend.cuda if attempt.backend is Backend.CUDA else by_backend.rocm
    yield from (dict(entry) for entry in attempt.pool.env)
    of_shape = attempt.entry.env if attempt.entry else ()
    for entry in as_written((*attempt.spec.env, *of_backend, *of_shape)):
        if entry["name"] != OVERRIDE or _overridden(attempt):
            yield entry


def _overridden(attempt: Attempt) -> bool:
    """Whether placement lets the device pass for another one; elsewhere the variable would break it."""
    return any(warning.reason is Reason.ARCH_OVERRIDDEN for warning in attempt.choice.candidate.warnings)


def _reserved(name: str) -> bool:
    """Whether it is reserved: a user's NVIDIA_VISIBLE_DEVICES could name devices of another pod."""
    ours = name.startswith(RESERVED_PREFIXES) and name != REPORT_OPTIMIZER
    return ours or name == nvidia.VISIBLE_DEVICES


def _references(texts: Iterable[str]) -> set[str]:
    """The variables that Kubernetes puts into texts."""
    return {name for text in texts for name in _REFERENCE.findall(text)}


def _merged(entries: Iterable[Manifest]) -> list[Manifest]:
    """Each name once; the last value wins, at the position of the first so that others can refer to it.

    A value that itself refers to variables keeps its own position: Kubernetes expands only earlier ones.
    """
    merged: dict[str, Manifest] = {}
    for entry in entries:
        name = str(entry["name"])
        if "$(" in str(entry.get("value", "")):
            merged.pop(name, None)
        merged[name] = entry
    return list(merged.values())
