"""The preflight's entry, run by the init container: examines it, writes the result, and never ends in a traceback."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpujob_runner.preflight.expected import VARIABLE, Expected, read_expected
from gpujob_runner.preflight.folders import CACHES, HOMES, folders_of, size_of, unwritable, useless
from gpujob_runner.preflight.interpreter import Interpreter, Missing, find_interpreter
from gpujob_runner.preflight.nodes import Nodes, open_nodes
from gpujob_runner.preflight.probing import Seen, probe
from gpujob_runner.preflight.result import Result, message_of
from gpujob_runner.preflight.verdict import of_folders, of_nodes, of_torch

MESSAGE = "/dev/termination-log"
NOTE = "/run/gpujob/image.json"
SHARED_MEMORY = "/dev/shm"
FAILED = 4
"""The exit code of a preflight that keeps the program from starting."""


def main() -> None:
    """Examines the container, writes the result where the kubelet looks for it, and ends with its exit code."""
    began = time.monotonic()
    environment = dict(os.environ)
    expected = read_expected(environment)
    environment.pop(VARIABLE, None)
    unset = useless(environment, [name for name in CACHES if name not in expected.caches])
    try:
        result = examine(sys.argv[1:], expected, environment)
    except Exception as error:
        # A fault of the preflight's own is no reason to keep a program from running.
        result = Result([{"reason": "PreflightFault", "error": f"{type(error).__name__}: {error}"}])
    result.facts["seconds"] = round(time.monotonic() - began, 1)
    if unset:
        result.facts["unset"] = sorted(unset)
    note_image(environment, unset)
    write(message_of(result))
    show(result)
    sys.exit(FAILED if result.blocks and expected.required else 0)


def examine(words: Sequence[str], expected: Expected, environment: dict[str, str]) -> Result:
    """The facts of the container, and the findings about what differs from the expectation."""
    nodes = open_nodes(expected.vendor)
    found = find_interpreter([word for word in words if word], environment, named=expected.command)
    seen = Seen()
    if isinstance(found, Missing):
        findings = [{"reason": "CommandNotFound", "program": found.program, "path": environment.get("PATH", "")}]
    elif isinstance(found, Interpreter):
        seen = probe(found, expected.backend, environment)
        findings = of_torch(expected, seen, nodes, environment)
    else:
        findings = of_nodes(expected, nodes)
    needed = [*expected.folders, *expected.mounts, *folders_of(environment, HOMES)]
    shared_memory = size_of(SHARED_MEMORY)
    findings = [*findings, *of_folders(expected, shared_memory, unwritable(needed))]
    caches = folders_of(environment, CACHES)
    return Result(findings, _facts(found, seen, nodes, shared_memory, caches))


def _facts(found: object, seen: Seen, nodes: Nodes, shared_memory: int | None, caches: Iterable[str]) -> dict[str, Any]:
    reading = unwritable([os.getcwd(), *caches])
    facts = {
        "interpreter": found.path if isinstance(found, Interpreter) else None,
        "python": seen.python or None,
        "torch": seen.torch,
        "backend": f"{seen.backend} {seen.number}".strip() or None,
        "importSeconds": None if seen.import_seconds is None else round(seen.import_seconds, 1),
        "deviceSeconds": round(sum(device.seconds for device in seen.devices), 1) if seen.devices else None,
        "devices": _grouped(seen) or None,
        "nodes": len(nodes.cards),
        "nodeErrors": sorted({f"{each.path} {each.error}" for each in nodes.broken})[:4] or None,
        "sharedMemory": shared_memory,
        "readOnly": [each.path for each in reading][:4] or None,
    }
    return {key: value for key, value in facts.items() if value is not None}


def _grouped(seen: Seen) -> list[dict[str, Any]]:
    """Devices of one name as one entry, with the least of their memory."""
    groups: dict[str, dict[str, Any]] = {}
    for device in seen.devices:
        group = groups.setdefault(
            device.name, {"name": device.name, "count": 0, "free": device.free, "total": device.total}
        )
        group["count"] += 1
        group["free"], group["total"] = min(group["free"], device.free), min(group["total"], device.total)
    return list(groups.values())[:8]


def note_image(environment: Mapping[str, str], unset: Mapping[str, str]) -> None:
    """Notes the image's PYTHONPATH, which the pod's own variable hides, and its variables that name unusable folders."""
    try:
        with open(NOTE, "w") as file:
            json.dump({"PYTHONPATH": environment.get("PYTHONPATH", ""), "unset": dict(unset)}, file)
    except OSError as error:
        print(f"preflight: {NOTE} cannot be written ({error}): the image's PYTHONPATH is not known", file=sys.stderr)


def write(message: str) -> None:
    """Writes the termination message."""
    try:
        with open(MESSAGE, "w") as file:
            file.write(message)
    except OSError as error:
        print(f"preflight: {MESSAGE} cannot be written: {error}", file=sys.stderr)


def show(result: Result) -> None:
    """Prints the result for people who read the container's log."""
    for finding in result.findings:
        print("preflight: " + " ".join(f"{key}={value}" for key, value in finding.items()))
    for key, value in result.facts.items():
        print(f"preflight: {key}: {value}")
