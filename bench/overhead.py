"""What the reporter costs a training step on a GPU, and that it never waits for the device.

    python bench/overhead.py [SECONDS]

One process, one model, SECONDS (60) for each row. Single steps with the reporter (the hook, and the look at each batch) and without it
take turns, with, without, without, with and the other way round, so that clocks, heat and neighbours change both alike; a row is of
these fours. The thread works at its own pace meanwhile, and so does a scrape every 15 s: what they take is printed separately, since
it falls on both alike. Each step reads its loss, so that the host's time is never hidden behind the device's. Needs torch
and a GPU, nothing else.
"""

from __future__ import annotations

import operator
import os
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "operator"))
os.environ["GPUJOB_REPORT_PORT"] = "0"
os.environ["GPUJOB_RUN_FOLDER"] = tempfile.mkdtemp(prefix="gpujob-bench-")

from gpujob_runner.report import watch

watch.arm()

import torch  # noqa: E402
from torch.utils.data import DataLoader, IterableDataset  # noqa: E402

from gpujob_runner.report import guard, line, process  # noqa: E402
from gpujob_runner.report.hooks import torch_hooks  # noqa: E402

SIZES = {"1-3 ms": (4096, 4, 1024), "10 ms": (8192, 6, 1280)}
"""Width, layers, samples a step."""
FOUR = (True, False, False, True)
"""Whether the reporter is on in one step after another; the next four have it the other way round."""
SCRAPES_EVERY = 15.0
WITH = torch.utils.data.dataloader._BaseDataLoaderIter.__next__
WITHOUT = WITH.__wrapped__


class Batches(IterableDataset):  # type: ignore[type-arg]
    """One batch, over and over: what is measured is the reporter, not the loading."""

    def __init__(self, batch: torch.Tensor) -> None:
        self._batch = batch

    def __iter__(self) -> Any:
        while True:
            yield self._batch


class Training:
    """A network of equal layers with a fused AdamW; `scaled` trains in FP16 with a GradScaler."""

    def __init__(self, width: int, layers: int, samples: int, scaled: bool = False) -> None:
        blocks = [torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU()) for _ in range(layers)]
        self.model = torch.nn.Sequential(*blocks).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-5, fused=True)
        self.batches = iter(DataLoader(Batches(torch.randn(samples, width, device="cuda")), batch_size=None))
        self.scaler = torch.amp.GradScaler("cuda", enabled=scaled)
        self.type = torch.float16 if scaled else torch.bfloat16

    def step(self, spoilt: bool = False) -> torch.Tensor:
        """One step; `spoilt` makes the gradients infinite."""
        batch = next(self.batches)
        self.optimizer.zero_grad()
        with torch.autocast("cuda", self.type):
            loss = self.model(batch).square().mean()
        self.scaler.scale(loss * float("inf") if spoilt else loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()


def reporter_on(on: bool) -> None:
    """Puts the reporter's part of a step on or takes it off."""
    torch.utils.data.dataloader._BaseDataLoaderIter.__next__ = WITH if on else WITHOUT
    if on and torch_hooks._handle is None:
        # Not `watch_optimizers`, which wraps the construction of optimizers once for each call.
        register = sys.modules["torch.optim.optimizer"].register_optimizer_step_post_hook
        torch_hooks._handle = register(torch_hooks.after_step)
    elif not on and torch_hooks._handle is not None:
        torch_hooks._handle.remove()
        torch_hooks._handle = None


def anew() -> None:
    """Ends the reporter of the process; the next step begins another."""
    reporter_on(False)
    if process.current is not None:
        process.current.stop()
        process.current = process.rank = None


def timed(step: Callable[[], torch.Tensor], on: bool) -> float:
    """Seconds of one step."""
    reporter_on(on)
    began = time.perf_counter()
    step().item()
    return time.perf_counter() - began


def scrape() -> dict[str, float]:
    """What the reporter serves now."""
    port = (Path(os.environ["GPUJOB_RUN_FOLDER"]) / "report" / "port").read_text()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
        lines = [line.rsplit(" ", 1) for line in page.read().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def compare(name: str, training: Training, seconds: float) -> None:
    """Prints a row: the step without the reporter, and what a step with it takes more."""
    anew()
    for _ in range(50):
        timed(training.step, on=True)
    scraped = began = time.perf_counter()
    fours: list[tuple[float, float]] = []
    while time.perf_counter() - began < seconds:
        if time.perf_counter() - scraped >= SCRAPES_EVERY:
            scraped = time.perf_counter()
            threading.Thread(target=scrape).start()
        times = {True: 0.0, False: 0.0}
        for on in FOUR if len(fours) % 2 else map(operator.not_, FOUR):
            times[on] += timed(training.step, on)
        fours.append((times[True], times[False]))
    anew()
    ratios = sorted(on / off - 1 for on, off in fours)
    print(
        f"| {name} | {500 * statistics.median(off for _, off in fours):.3f} ms | {statistics.median(ratios):+.3%} "
        f"| {' to '.join(f'{end:+.3%}' for end in of_the_median(ratios))} "
        f"| {ratios[len(ratios) // 4]:+.3%} to {ratios[-1 - len(ratios) // 4]:+.3%} | {len(fours)} |",
        flush=True,
    )


def of_the_median(ordered: list[float]) -> tuple[float, float]:
    """The ends of the interval that holds the true median in 95 of 100 cases, by ranks: whatever the noise is like."""
    middle, half = len(ordered) / 2, 0.98 * len(ordered) ** 0.5
    return ordered[max(0, int(middle - half))], ordered[min(len(ordered) - 1, int(middle + half))]


def host_cost() -> None:
    """Prints the least host time of the hook and of the look at a batch, and of the thread's round, in microseconds."""
    anew()
    reporter_on(True)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    batches = iter(DataLoader(Batches(torch.zeros(8, 8)), batch_size=None))
    calls: dict[str, Callable[[], object]] = {
        "hook": lambda: torch_hooks.after_step(optimizer, (), {}),
        "batch, watched": lambda: WITH(batches),
        "batch, not watched": lambda: WITHOUT(batches),
    }
    calls["hook"]()
    time.sleep(0.5)
    calls["round of the thread"] = lambda: process.current._beat()
    calls["scrape and its client"] = scrape
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(50):
        for what, call in calls.items():
            began = time.perf_counter()
            for _ in range(50):
                call()
            least[what] = min(least[what], (time.perf_counter() - began) / 50)
    print("host time in microseconds: " + ", ".join(f"{what} {1e6 * taken:.2f}" for what, taken in least.items()))
    anew()


def never_waits() -> None:
    """Trains with a fused optimizer, a GradScaler and a loss on the device while every wait for the device is an error."""
    for by_line in (False, True):
        training = Training(1024, 2, 256, scaled=True)
        for _ in range(20):
            training.step()
        before = int(next(iter(training.optimizer.state.values()))["step"])
        anew()
        reporter_on(True)
        spoilt = {7, 50, 51, 200}
        torch.cuda.set_sync_debug_mode("error")
        for number in range(400):
            loss = training.step(spoilt=number in spoilt)
            if by_line:
                line.step(256, None, loss)
            if number % 100 == 0:
                time.sleep(2.1)
        torch.cuda.set_sync_debug_mode("default")
        time.sleep(0.6)
        for _ in range(17):
            training.step()
            torch.cuda.synchronize()
            time.sleep(0.02)
        figures = scrape()
        rank = process.current.rank
        truth = int(next(iter(training.optimizer.state.values()))["step"]) - before
        told = {name: value for name, value in figures.items() if "steps_total" in name or "metric" in name}
        print(
            f"no wait for the device ({'line' if by_line else 'hook'}): {told}, {rank.held} not known yet", flush=True
        )
        print(f"  the optimizer itself took {truth} of 417 steps; failures {guard.failures}", flush=True)


def captures() -> None:
    """Captures CUDA graphs while another thread reads memory as the reporter does, far more often."""
    from gpujob_runner.report.readings import torch_state

    devices, over, reads, errors = torch_state.Devices(), threading.Event(), [0], []
    scratch = torch.zeros(1 << 20, device="cuda")

    def read() -> None:
        while not over.is_set():
            try:
                devices._queried = devices._searched = float("-inf")
                devices.figures()
                reads[0] += 1
            except Exception as error:
                errors.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(100):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(50):
                scratch.add_(1).sum()
        graph.replay()
    torch.cuda.synchronize()
    over.set()
    reader.join()
    print(f"100 graphs captured while memory was read {reads[0]} times, errors in the reader: {errors[:1]}", flush=True)


def main(seconds: float) -> None:
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, Python {sys.version.split()[0]}")
    never_waits()
    captures()
    host_cost()
    print(
        "\n| step | without | with: median | 95 % interval of it | middle half | fours of steps |\n|---|---|---|---|---|---|"
    )
    for name, size in SIZES.items():
        compare(name, Training(*size), seconds)
    compare("1-3 ms, FP16 with GradScaler", Training(*SIZES["1-3 ms"], scaled=True), seconds)
    print(f"failures inside the reporter: {guard.failures}")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
