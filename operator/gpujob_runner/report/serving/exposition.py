"""The figures of a pod's processes as Prometheus text (format 0.0.4); the one list of what is exported.

Figures of other processes are read from files, so that any value may be of any type: what is not a number is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

METRICS: tuple[tuple[str, str, str], ...] = (
    ("steps_total", "counter", "Optimizer steps of the training."),
    ("skipped_steps_total", "counter", "Steps that GradScaler skipped inside a fused optimizer."),
    ("samples_total", "counter", "Samples trained on by this rank."),
    ("tokens_total", "counter", "Tokens trained on by this rank, padding included."),
    ("step_duration_seconds", "summary", "Time between steps; quantiles of the last 512."),
    ("data_wait_seconds_total", "counter", "Time that the training loop waited for the DataLoader."),
    ("data_wait_ratio", "gauge", "That time as a share of the last 512 steps."),
    ("first_step_timestamp_seconds", "gauge", "Unix time of the first step."),
    ("last_step_timestamp_seconds", "gauge", "Unix time of the last step."),
    (
        "still_seconds",
        "gauge",
        "Seconds without a step, a batch or a phase; 0 in a phase, unless its bound is over.",
    ),
    ("slowest_step_seconds", "gauge", "Longest of the last 512 steps, without compiling, evaluating and saving."),
    ("phase", "gauge", "1: what the process does now (Training, Compiling, Evaluating, Saving)."),
    ("phase_left_seconds", "gauge", "Seconds for which the clock still stands in this phase; absent outside of one."),
    ("process_start_timestamp_seconds", "gauge", "Unix time at which the process imported torch's optimizers."),
    ("progress_ratio", "gauge", "How much of the training is done, as the program says."),
    ("remaining_seconds", "gauge", "Seconds to the end, as the program says."),
    ("progress_timestamp_seconds", "gauge", "Unix time at which the program said so."),
    ("training_metric", "gauge", "Loss, learning rate and others, as the program says."),
    ("checkpoint_step", "gauge", "Step of the last checkpoint, as the program says."),
    ("checkpoint_timestamp_seconds", "gauge", "Unix time of the last checkpoint."),
    ("checkpoint_save_seconds", "gauge", "Longest time that a checkpoint took to save, as the program says."),
    ("unsaved_steps", "gauge", "Optimizer steps since the last checkpoint."),
    ("device_memory_allocated_bytes", "gauge", "Memory in tensors now."),
    ("device_memory_reserved_bytes", "gauge", "Memory held by torch's allocator now."),
    ("device_memory_peak_bytes", "gauge", "Most memory in tensors so far."),
    ("device_memory_reserved_peak_bytes", "gauge", "Most memory held by torch's allocator so far."),
    ("device_memory_used_bytes", "gauge", "Memory in use on the device by anything, once a minute."),
    ("device_memory_total_bytes", "gauge", "Memory of the device."),
    ("device_fault_timestamp_seconds", "gauge", "Unix time of the first error of this kind that the driver reported."),
    ("on_device", "gauge", "1 if the process holds memory on a GPU, 0 if it trains on the CPU."),
    ("process_info", "gauge", "Versions, device name, and where the figures come from."),
    ("reporter_failures_total", "counter", "Failures inside the reporter, by part."),
)
"""(name without gpujob_, type, help) of every metric of a rank."""

POD_METRICS: tuple[tuple[str, str, str], ...] = (
    ("up", "gauge", "1."),
    ("world_size", "gauge", "Ranks of the whole job."),
    ("ranks_reporting", "gauge", "Processes of this pod whose figures are in this answer."),
    ("attempt_info", "gauge", "1: whose report it is."),
)
"""The metrics of a pod, which carry no rank."""

DEVICE_MEMORY = "device_memory_"
LABELLED_BY = {"training_metric": "name", "reporter_failures_total": "part", "phase": "phase"}
MAY_BE_ANY_NUMBER = "training_metric"
LONGEST_LABEL = 128
MOST_ENTRIES = 64

Labels = tuple[tuple[str, str], ...]


def exposed(processes: Iterable[dict[str, Any]], job_uid: str = "", attempt: str = "") -> str:
    """The page; of two processes that say they are the same rank, the one that stepped last is shown.

    `job_uid` and `attempt` identify the job; the line is left out if one of them is empty.
    """
    ranks = _by_rank(processes)
    world = max((_whole(process.get("world_size")) for process in ranks.values()), default=1)
    whose = _row("attempt_info", (("job_uid", job_uid), ("attempt", attempt)), 1) if job_uid and attempt else ()
    of_pod = {
        "up": ["gpujob_up 1"],
        "world_size": [f"gpujob_world_size {max(world, 1)}"],
        "ranks_reporting": [f"gpujob_ranks_reporting {len(ranks)}"],
        "attempt_info": list(whose),
    }
    lines: list[str] = []
    for name, kind, text in (*POD_METRICS, *METRICS):
        rows = of_pod.get(name)
        if rows is None:
            rows = [row for rank, process in ranks.items() for row in _rows(name, rank, process["figures"])]
        if rows:
            lines += [f"# HELP gpujob_{name} {text}", f"# TYPE gpujob_{name} {kind}", *rows]
    return "\n".join(lines) + "\n"


def _by_rank(processes: Iterable[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    ranks: dict[int, dict[str, Any]] = {}
    for process in processes:
        if not isinstance(process.get("figures"), dict):
            continue
        rank = _whole(process.get("rank"))
        if rank not in ranks or _last_step(process) > _last_step(ranks[rank]):
            ranks[rank] = process
    return dict(sorted(ranks.items()))


def _last_step(process: dict[str, Any]) -> float:
    last = process["figures"].get("last_step_timestamp_seconds")
    return float(last) if _is_finite(last) else 0.0


def _rows(name: str, rank: int, figures: dict[str, Any]) -> Iterable[str]:
    """The lines of one metric of one rank."""
    labels: Labels = (("rank", str(rank)),)
    if name.startswith(DEVICE_MEMORY):
        for device, memory in _entries(figures.get("devices")):
            if isinstance(memory, dict):
                yield from _row(name, (*labels, ("device", device)), memory.get(name[len(DEVICE_MEMORY) :]))
        return
    value = figures.get(name)
    if name == "step_duration_seconds":
        for part, seconds in _entries(value):
            if part in ("sum", "count"):
                yield from _row(f"{name}_{part}", labels, seconds)
            else:
                yield from _row(name, (*labels, ("quantile", part)), seconds)
    elif name == "device_fault_timestamp_seconds":
        for fault, device, at in _faults(figures.get("device_faults")):
            yield from _row(name, (*labels, ("device", str(device)), ("fault", str(fault))), at)
    elif name == "process_info":
        facts = tuple((key, str(text)) for key, text in _entries(value))
        if facts:
            yield from _row(name, labels + facts, 1)
    elif name in LABELLED_BY:
        for key, number in _entries(value):
            yield from _row(name, (*labels, (LABELLED_BY[name], key)), number, name == MAY_BE_ANY_NUMBER)
    else:
        yield from _row(name, labels, value)


def _row(name: str, labels: Labels, value: Any, any_number: bool = False) -> Iterable[str]:
    if _is_finite(value) or (any_number and isinstance(value, float)):
        pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
        yield f"gpujob_{name}{{{pairs}}} {_number(value)}"


def _entries(value: Any) -> list[tuple[str, Any]]:
    return [(str(key), entry) for key, entry in list(value.items())[:MOST_ENTRIES]] if isinstance(value, dict) else []


def _faults(value: Any) -> list[list[Any]]:
    entries = value[:MOST_ENTRIES] if isinstance(value, list) else []
    return [each for each in entries if isinstance(each, list) and len(each) == 3]


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and abs(value) < 1e300


def _whole(value: Any) -> int:
    return int(value) if _is_finite(value) and 0 <= value < 1e9 else 0


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def _escaped(text: str) -> str:
    return text[:LONGEST_LABEL].replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", " ")
