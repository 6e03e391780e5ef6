"""Real hangs of two ranks on two GPUs: what the reporter serves meanwhile, and what the operator's rule makes of it.

    python bench/hangs.py run FOLDER [CASE ...]       # needs torch and two GPUs (without GPUs: gloo), nothing else
    python bench/hangs.py judge FOLDER [SECONDS]      # needs the operator's packages

`run` starts each case with torchrun as a pod does, reads the reporter's port every second and writes what it answered to
FOLDER/CASE.jsonl; `judge` prints the first and the last sentence of a stall with a bound of SECONDS (10). In the cases `compiles` and
`autotunes` nothing hangs; in each other one rank 1 stops working after 24 steps.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

OPERATOR: Final = Path(__file__).parents[1] / "operator"
SECONDS: Final = {
    "ddp": 45, "fsdp": 48, "item": 45, "item-before": 45, "barrier": 48, "other-collective": 45, "stopped": 52, "evaluation": 60,
    "compiles": 120, "autotunes": 200,
}  # fmt: skip
"""How long each case is read."""
BEFORE_THE_HANG: Final = 24
PHASE: Final = 15
"""stall.phaseSeconds of the case `evaluation`."""


def read_shard() -> None:
    """The rank that is behind is here."""
    time.sleep(3600)


def hangs(case: str, torch: Any, rank: int, device: str) -> None:
    """What happens before step 25."""
    dist = torch.distributed
    if case == "barrier":
        dist.barrier()
    if rank == 1 and case in ("ddp", "fsdp", "item", "item-before", "barrier"):
        read_shard()
    if rank == 1 and case == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    if rank == 1 and case == "other-collective":
        dist.all_reduce(torch.ones(7, device=device))
        torch.cuda.synchronize()
    if case == "evaluation":
        import gpujob_report

        with gpujob_report.evaluating():
            if rank == 1:
                read_shard()
            mean = torch.ones(1, device=device)
            dist.all_reduce(mean)
            mean.item()


def train(case: str) -> None:
    """The program of one rank."""
    import torch
    import torch.distributed as dist

    compiles = case in ("compiles", "autotunes")
    on_gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if on_gpu else "gloo")
    rank, device = dist.get_rank(), "cuda" if on_gpu else "cpu"
    if on_gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    layers = [torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.GELU()) for _ in range(24 if compiles else 4)]
    model: Any = torch.nn.Sequential(*layers).to(device)
    if case == "fsdp":
        from torch.distributed.fsdp import fully_shard

        for layer in model:
            fully_shard(layer)
        fully_shard(model)
    else:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    if compiles:
        mode = "max-autotune-no-cudagraphs" if case == "autotunes" else None
        model = torch.compile(model, mode=mode, dynamic=False)
    for step in range(1, 21 if compiles else 1_000_000):
        if step == BEFORE_THE_HANG + 1:
            hangs(case, torch, rank, device)
        # Another batch size every five steps: the graph is compiled again.
        loss = model(torch.randn(64 + step // 5 * compiles, 1024, device=device)).square().mean()
        optimizer.zero_grad()
        if case == "item-before":
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            mean.item()
        loss.backward()
        optimizer.step()
        if case in ("item", "stopped", "other-collective"):
            loss.item()
        if step <= BEFORE_THE_HANG:
            time.sleep(0.2)
    dist.destroy_process_group()


def run(folder: Path, case: str) -> None:
    """Runs a case and writes what the port answers."""
    notes = folder / case
    notes.mkdir(parents=True)
    path = os.pathsep.join([str(OPERATOR / "gpujob_runner" / "onpath"), os.environ.get("PYTHONPATH", "")])
    environment = {
        **os.environ, "PYTHONPATH": path, "GPUJOB_REPORT_PORT": "0",
        "GPUJOB_RUN_FOLDER": str(notes), "POD_IP": "127.0.0.1", "GPUJOB_JOB_UID": "u", "GPUJOB_ATTEMPT": "1",
        **({"GPUJOB_PHASE_SECONDS": str(PHASE)} if case == "evaluation" else {}),
    }  # fmt: skip
    launch = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node=2",
        "--standalone",
        __file__,
        "train",
        case,
    ]
    began = time.monotonic()
    with (folder / f"{case}.log").open("w") as log, (folder / f"{case}.jsonl").open("w") as readings:
        program = subprocess.Popen(launch, env=environment, stdout=log, stderr=log)
        while program.poll() is None and time.monotonic() - began < SECONDS[case]:
            reading: dict[str, Any] = {"after": round(time.monotonic() - began, 1)}
            try:
                reading |= {where: page(notes, where) for where in ("/metrics", "/ranks")}
            except OSError as error:
                reading["error"] = str(error)
            readings.write(json.dumps(reading) + "\n")
            time.sleep(1.0)
        ended = program.poll()
        if ended is None:
            end(program)
    print(f"{case}: {'ended by itself' if ended == 0 else f'exit code {ended}'} after {time.monotonic() - began:.0f} s")


def page(notes: Path, path: str) -> str:
    """What the reporter answers."""
    port = (notes / "report" / "port").read_text()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=3) as answer:
        return str(answer.read().decode())


def end(launcher: subprocess.Popen[bytes]) -> None:
    """Kills torchrun and its ranks, also stopped ones."""
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
    launcher.kill()
    for pid in map(int, children):
        os.kill(pid, signal.SIGKILL)
    launcher.wait()


def judge(readings: Path, bound: int) -> None:
    """Prints what the operator would say of a case."""
    sys.path.insert(0, str(OPERATOR))
    from gpujob.cluster.metrics.exposition import read_report
    from gpujob.cluster.telemetry.ranks import read_ranks
    from gpujob.lifecycle.stalls import stall_of
    from gpujob.status.attempts.progress import Measured
    from gpujob.status.attempts.standstill import Ranks
    from gpujob.status.job.telemetry import Telemetry
    from gpujob.status.records.objects import PodState
    from gpujob.status.records.read_objects import read_job

    pod = PodState("p0", "c", "n0", "Running", running=True, leaving=False)
    stall = {"afterSeconds": bound, "firstStepSeconds": bound}
    job = read_job({"metadata": {"name": "j", "namespace": "n", "uid": "u"}, "spec": {"stall": stall}})
    said, longest, read = dict[float, str](), 0.0, 0
    for line in map(json.loads, readings.read_text().splitlines()):
        if "/ranks" not in line:
            continue
        report, now = read_report(line["/metrics"].encode()), datetime.now(UTC)
        world, ranks = read_ranks(line["/ranks"].encode(), pod, "u", 1)
        still = min([report.still or 0.0, *(each.still for each in ranks)])
        read, longest = read + 1, max(longest, still)
        measured = Measured(
            now,
            counters=report.counters,
            still=still,
            slowest_step=report.slowest_step,
            ranks=Ranks(tuple(ranks), world),
        )
        if found := stall_of(job, Telemetry(measured), now):
            said[line["after"]] = found.message
    print(f"{readings.stem}: {read} readings, at most {longest:.1f} s without a sign of work")
    for after in sorted({min(said), max(said)} if said else ()):
        print(f"  after {after} s: {said[after]}")


def main(verb: str, *arguments: str) -> None:
    if verb == "train":
        train(arguments[0])
    elif verb == "run":
        for case in arguments[1:] or SECONDS:
            run(Path(arguments[0]), case)
    else:
        for readings in sorted(Path(arguments[0]).glob("*.jsonl")):
            judge(readings, int(arguments[1]) if len(arguments) > 1 else 10)


if __name__ == "__main__":
    main(*sys.argv[1:])
