"""The operator's expectation of the pod, from the variable GPUJOB_PREFLIGHT; amounts in bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

VARIABLE = "GPUJOB_PREFLIGHT"


@dataclass(frozen=True)
class Expected:
    """What each pod gets; an empty field, or None, is not checked."""

    backend: str = ""
    """CUDA or ROCm."""
    vendor: str = ""
    """AMD or NVIDIA."""
    gpus: int = 0
    exact: bool = True
    """Whether torch must see exactly so many: one process sees one MIG slice, and shared places may be one device."""
    shared: bool = False
    """Whether other pods use the devices too."""
    memory: int | None = None
    """Usable memory of each GPU."""
    shared_memory: int | None = None
    folders: tuple[str, ...] = ()
    """The operator's own folders."""
    mounts: tuple[str, ...] = ()
    """Volumes of the user's that are mounted to be written."""
    caches: tuple[str, ...] = ()
    """Variables of caches that the pool or the job sets; all others are the image's."""
    command: bool = False
    """Whether the job names its command; else the words are arguments of an unknown entry point."""
    required: bool = True


def read_expected(environment: Mapping[str, str]) -> Expected:
    """The expectation in an environment; an unreadable member is not checked."""
    try:
        document = json.loads(environment.get(VARIABLE) or "{}")
    except ValueError:
        document = {}
    document = document if isinstance(document, dict) else {}
    return Expected(
        backend=_text(document, "backend"),
        vendor=_text(document, "vendor"),
        gpus=_amount(document, "gpus") or 0,
        exact=document.get("exact") is not False,
        shared=document.get("shared") is True,
        memory=_amount(document, "memory"),
        shared_memory=_amount(document, "sharedMemory"),
        folders=_paths(document, "folders"),
        mounts=_paths(document, "mounts"),
        caches=_paths(document, "caches"),
        command=document.get("command") is True,
        required=document.get("required") is not False,
    )


def _text(document: Mapping[str, Any], key: str) -> str:
    value = document.get(key)
    return value if isinstance(value, str) else ""


def _amount(document: Mapping[str, Any], key: str) -> int | None:
    value = document.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _paths(document: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = document.get(key)
    return tuple(path for path in value if isinstance(path, str) and path) if isinstance(value, list) else ()
