"""Host time that the reporter adds to a training step, on the CPU, with caches as cold as a real step leaves them.

    PYTHONPATH=$(make -s torch | tail -1) python bench/reporter_host.py [SECONDS] [OPERATOR_FOLDER]

Steps of a small network without the reporter, and with the reporter of this checkout and of OPERATOR_FOLDER (the folder
`operator` of another checkout), in blocks by turns. Between the parts that are timed the step itself runs its thousands
of instructions, and `EVICTED` bytes are written, so that what the reporter needs must come from the third-level cache or
from memory. Timed alone: `next` of the DataLoader's iterator, where a device waits for the host, and `step` of the
optimizer, where it mostly does not. The threads are measured by what the kernel says they ran. Needs torch, no GPU.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch.optim import optimizer as torch_optimizer
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data import dataloader as torch_dataloader

EVICTED = 8 << 20
BLOCK, WARMED = 16, 4
"""Steps of a block, and how many of them at its start are not timed."""
ITERATOR = torch_dataloader._BaseDataLoaderIter
BARE = ITERATOR.__next__


class Reporter:
    """The reporter of one checkout, put on and taken off as a whole; None is no reporter."""

    def __init__(self, name: str, operator: Path | None) -> None:
        self.name, self.next, self.hook, self.process = name, BARE, None, None
        if operator is None:
            return
        for loaded in [loaded for loaded in sys.modules if loaded.startswith("gpujob_runner")]:
            del sys.modules[loaded]
        sys.path.insert(0, str(operator))
        hooks: Any = import_module("gpujob_runner.report.hooks.torch_hooks")
        self.process = import_module("gpujob_runner.report.process")
        sys.path.remove(str(operator))
        hooks.watch_batches(torch_dataloader)
        self.next, self.hook = ITERATOR.__next__, hooks.after_step
        ITERATOR.__next__ = BARE

    def put_on(self) -> None:
        ITERATOR.__next__ = self.next
        torch_optimizer._global_optimizer_post_hooks.clear()
        if self.hook is not None:
            torch_optimizer.register_optimizer_step_post_hook(self.hook)


class Batches(IterableDataset):  # type: ignore[type-arg]
    """One batch of inputs and targets, over and over."""

    def __iter__(self) -> Any:
        batch = [torch.zeros(8, 16), torch.zeros(8, 1)]
        while True:
            yield batch


class Training:
    """A step of which nearly all is the host's own work."""

    def __init__(self) -> None:
        self.model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-5)
        self.batches = iter(DataLoader(Batches(), batch_size=None))
        self.evicted = torch.zeros(EVICTED, dtype=torch.uint8)

    def step(self) -> tuple[float, float]:
        """Microseconds of `next`, and of the optimizer's `step`."""
        self.evicted.add_(1)
        began = time.perf_counter()
        inputs, targets = next(self.batches)
        fetched = time.perf_counter()
        self.optimizer.zero_grad()
        (self.model(inputs) - targets).square().mean().backward()
        self.evicted.add_(1)
        computed = time.perf_counter()
        self.optimizer.step()
        stepped = time.perf_counter()
        return 1e6 * (fetched - began), 1e6 * (stepped - computed)

    def hot(self) -> tuple[float, float]:
        """The same with nothing between."""
        began = time.perf_counter()
        next(self.batches)
        fetched = time.perf_counter()
        self.optimizer.step()
        return 1e6 * (fetched - began), 1e6 * (time.perf_counter() - fetched)


def by_turns(reporters: list[Reporter], step: Any, seconds: float) -> dict[str, list[tuple[float, float]]]:
    """Medians of `next` and `step` of each block, by reporter."""
    blocks: dict[str, list[tuple[float, float]]] = {reporter.name: [] for reporter in reporters}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for reporter in random.sample(reporters, len(reporters)):
            reporter.put_on()
            times = [step() for _ in range(BLOCK)][WARMED:]
            blocks[reporter.name].append(tuple(map(statistics.median, zip(*times, strict=True))))
    return blocks


def tell(kind: str, blocks: dict[str, list[tuple[float, float]]]) -> None:
    """Prints what each reporter adds: the median over all rounds of the difference to the bare block of that round."""
    bare = blocks["none"]
    for name, those in blocks.items():
        cells = []
        for part in (0, 1):
            added = sorted(block[part] - plain[part] for block, plain in zip(those, bare, strict=True))
            error = 1.2533 * statistics.stdev(added) / len(added) ** 0.5 if name != "none" else 0.0
            middle = statistics.median(block[part] for block in bare) if name == "none" else statistics.median(added)
            cells.append(f"{middle:.2f}" if name == "none" else f"+{middle:.2f} ± {error:.2f}")
        print(f"| {kind} | {name} | {cells[0]} | {cells[1]} | {len(those)} × {BLOCK - WARMED} |", flush=True)


def ran() -> dict[int, float]:
    """Seconds that each thread of the reporters ran so far, by its number."""
    told = {}
    for thread in threading.enumerate():
        if thread.name.startswith("gpujob") and thread.native_id:
            path = Path(f"/proc/self/task/{thread.native_id}/schedstat")
            told[thread.native_id] = int(path.read_text().split()[0]) / 1e9
    return told


def begin(reporter: Reporter) -> tuple[set[int], int]:
    """Starts the reporter in a folder of its own; the threads that came, and the port."""
    before = set(ran())
    os.environ["GPUJOB_RUN_FOLDER"] = folder = tempfile.mkdtemp(prefix="gpujob-bench-")
    reporter.process.begin()
    port = Path(folder) / "report" / "port"
    while not port.exists():
        time.sleep(0.05)
    return set(ran()) - before, int(port.read_text())


def threads(
    reporters: list[Reporter], mine: dict[str, tuple[set[int], int]], training: Training, seconds: float
) -> None:
    """Prints what the threads run while the training goes on: all the time, and for each answer."""

    def during(seconds: float) -> dict[int, float]:
        before, end = ran(), time.perf_counter() + seconds
        while time.perf_counter() < end:
            training.step()
        return {thread: total - before[thread] for thread, total in ran().items()}

    for reporter in reporters:
        reporter.put_on()
        during(3.0)
    alone = during(seconds)
    for name, (own, port) in mine.items():
        before, answers = ran(), 20
        for _ in range(answers):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read()
            during(0.02)
        spent = sum(ran()[thread] - before[thread] for thread in own) / answers
        share = sum(alone[thread] for thread in own) / seconds
        print(
            f"| threads | {name} | {share:.4%} of the time | {1e3 * spent:.2f} ms an answer | {seconds:.0f} s |",
            flush=True,
        )


def main(seconds: float, other: Path | None) -> None:
    os.environ["GPUJOB_REPORT_PORT"] = "0"
    os.environ["POD_IP"] = "127.0.0.1"
    torch.set_num_threads(1)
    reporters = [Reporter("none", None)]
    if other is not None:
        reporters.append(Reporter("before", other))
    reporters.append(Reporter("now", Path(__file__).parents[1] / "operator"))
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}, load {os.getloadavg()[0]:.1f}")
    print("| caches | reporter | next, µs | step, µs | |\n|---|---|---|---|---|")
    training = Training()
    mine = {reporter.name: begin(reporter) for reporter in reporters if reporter.process is not None}
    tell("cold", by_turns(reporters, training.step, seconds))
    tell("hot", by_turns(reporters, training.hot, seconds / 3))
    threads(reporters, mine, training, max(20.0, seconds / 3))


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0, Path(sys.argv[2]) if len(sys.argv) > 2 else None)
