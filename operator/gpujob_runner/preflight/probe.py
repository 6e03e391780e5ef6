"""What torch sees, printed line by line: run by the Python that the program will use, as a process that may hang or die.

Called with the number of a file descriptor, the wanted backend (CUDA or ROCm) and the most devices to try. Each line is
a JSON object with its stage, so that the reader knows the last stage that it reached. Every Python that torch supports runs it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, Callable

SIZE = 1024
"""Rows of the matrices: ones times ones is exactly this number in every place, in every precision."""


def main(descriptor: int, wanted: str, most: int) -> None:
    """The stages: found or absent, imported, counted, each device with its memory, each product."""
    out = os.fdopen(descriptor, "w")

    def report(stage: str, **facts: Any) -> None:
        out.write(json.dumps(dict(facts, stage=stage)) + "\n")
        out.flush()

    report("began", python=".".join(map(str, sys.version_info[:3])))
    version = version_of_torch()
    if version is None:
        report("absent")
        return
    backend, number = backend_of(version)
    report("found", torch=str(version.get("__version__") or "?"), backend=backend, number=number)
    if backend not in (wanted, "unknown"):
        return
    began = time.monotonic()
    try:
        import torch
    except BaseException as why:
        report("broken", error=words_of(why))
        return
    report("imported", seconds=time.monotonic() - began)
    count, error = count_of(torch)
    report("counted", count=count, error=error)
    for index in range(min(count, most)):
        try_device(torch, index, report)
    report("ended")


def version_of_torch() -> dict[str, Any] | None:
    """The variables of torch/version.py without an import of torch, which takes seconds; None without torch."""
    from importlib.util import find_spec

    try:
        spec = find_spec("torch")
    except (ImportError, ValueError):
        spec = None
    folders = list((spec and spec.submodule_search_locations) or ())
    if not folders:
        # A file torch.py of the user's own is not torch either.
        return None
    variables: dict[str, Any] = {"__name__": "torch.version"}
    try:
        with open(os.path.join(folders[0], "version.py")) as file:
            exec(compile(file.read(), file.name, "exec"), variables)
    except Exception:
        return {}
    return variables


def backend_of(version: dict[str, Any]) -> tuple[str, str]:
    """The backend that torch was built for, and its version; CPU and an empty version without one."""
    for name, word in (("hip", "ROCm"), ("cuda", "CUDA"), ("xpu", "XPU")):
        if version.get(name):
            return word, str(version[name])
    return ("CPU", "") if version else ("unknown", "")


def count_of(torch: Any) -> tuple[int, str]:
    """The number of devices that torch can use, and the reason if it is 0."""
    try:
        count = torch.cuda.device_count()
        if count and torch.cuda.is_available():
            return count, ""
        torch.cuda.init()
        return torch.cuda.device_count(), ""
    except BaseException as error:
        return 0, words_of(error)


def try_device(torch: Any, index: int, report: Callable[..., None]) -> None:
    """A device's name and memory, then a matrix product with known elements."""
    began = time.monotonic()
    try:
        free, total = torch.cuda.mem_get_info(index)
        facts = torch.cuda.get_device_properties(index)
        report("device", index=index, name=facts.name, free=free, total=total, seconds=time.monotonic() - began)
        began = time.monotonic()
        ones = torch.ones(SIZE, SIZE, device=f"cuda:{index}")
        right = bool(((ones @ ones) == SIZE).all().item())
        report("product", index=index, right=right, seconds=time.monotonic() - began)
    except BaseException as error:
        report("failed", index=index, error=words_of(error))


def words_of(error: BaseException) -> str:
    """An error as one line."""
    return (type(error).__name__ + ": " + " ".join(str(error).split()))[:400]


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
