"""What a preflight costs and finds on this machine's GPUs: `python3 -m bench.preflight`, with the python3 that has torch.

It runs the preflight as its container does, against what is true and against what is not, and prints tables for
bench/RESULTS.md. Needs torch, and neither Kubernetes nor this project's dependencies.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

SOURCE: Final = Path(__file__).resolve().parents[1] / "operator"
REPEATS: Final = 5

_RUN: Final = """import sys
sys.path.insert(0, sys.argv.pop(1))
from gpujob_runner.preflight import main
main.MESSAGE, main.NOTE = sys.argv.pop(1), sys.argv.pop(1)
main.main()
"""
_DESCRIBE: Final = """import json, torch
free, total = torch.cuda.mem_get_info(0)
print(json.dumps([torch.cuda.device_count(), torch.cuda.get_device_name(), free, total, torch.__version__]))
"""
_PROGRAM: Final = "import torch; x = torch.ones(1024, 1024, device='cuda'); print(float((x @ x).sum()))"
_NEIGHBOUR: Final = """import sys, time, torch
held = torch.empty(int(sys.argv[1]), dtype=torch.uint8, device='cuda')
torch.cuda.synchronize()
print('holds', flush=True)
time.sleep(600)
"""


def python(code: str, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """Runs some code in a Python of its own."""
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, **more)


def preflight(
    command: list[str], variables: dict[str, str] | None = None, **expected: Any
) -> tuple[float, int, dict[str, Any]]:
    """Seconds, exit code and result of one preflight with a promise."""
    with tempfile.TemporaryDirectory() as folder:
        message, note = f"{folder}/message", f"{folder}/note"
        told = {"backend": "CUDA", "vendor": "NVIDIA", "command": True, "gpus": 1, **expected}
        environment = {**os.environ, **(variables or {}), "GPUJOB_PREFLIGHT": json.dumps(told)}
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-I", "-B", "-c", _RUN, str(SOURCE), message, note, *command],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        seconds = time.perf_counter() - began
        return seconds, done.returncode, json.loads(Path(message).read_text())


def timed(code: str) -> float:
    """Seconds that a program takes from start to end."""
    began = time.perf_counter()
    done = python(code)
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    return time.perf_counter() - began


def main() -> None:
    """Prints the tables."""
    command = [sys.executable, "train.py"]
    cold, _, first = preflight(command)
    described = python(_DESCRIBE)
    if described.returncode:
        sys.exit(f"no GPU that torch can use: {described.stderr[-500:]}")
    count, name, free, total, torch = json.loads(described.stdout)
    print(f"{count} x {name}, torch {torch}, Python {sys.version.split()[0]}, {os.cpu_count()} cores")
    print(f"memory {total} bytes, {free} free beside one context: a context holds {(total - free) / 2**20:.0f} MiB\n")
    costs(command, count, total, cold)
    findings(command, count, total)
    print(f"\nmessage of the first run, {len(json.dumps(first))} bytes: {json.dumps(first)}")


def costs(command: list[str], count: int, total: int, cold: float) -> None:
    """What a start costs with and without a preflight."""
    runs = [preflight(command, gpus=count, memory=int(0.95 * total)) for _ in range(REPEATS)]
    assert all(code == 0 for _, code, _ in runs), runs
    alone = [timed(_PROGRAM) for _ in range(REPEATS)]
    facts = runs[-1][2]["facts"]
    print("| what | seconds (median of 5) |\n|---|---|")
    print(f"| first preflight on the machine | {cold:.1f} (one) |")
    print(f"| preflight, all in | {statistics.median(run[0] for run in runs):.2f} |")
    print(f"| of it: import of torch; devices | {facts.get('importSeconds')}; {facts.get('deviceSeconds')} |")
    print(f"| the smallest program: import, a product, end | {statistics.median(alone):.2f} |")
    print(
        f"| preflight of an image for the other backend | {preflight(command, backend='ROCm', vendor='AMD')[0]:.2f} |\n"
    )


def findings(command: list[str], count: int, total: int) -> None:
    """What a preflight finds where something is not as promised."""
    print("| what is wrong | seconds | exit | result |\n|---|---|---|---|")
    show("torch for CUDA where ROCm was chosen", preflight(command, backend="ROCm", vendor="AMD"))
    show("twice the memory of the card is asked", preflight(command, gpus=count, memory=2 * total))
    show("one GPU more than there is", preflight(command, gpus=count + 1))
    show("CUDA_VISIBLE_DEVICES hides all", preflight(command, {"CUDA_VISIBLE_DEVICES": "-1"}, gpus=count))
    show("the command's Python is not there", preflight(["python9.9", "train.py"], gpus=count))
    holder = subprocess.Popen([sys.executable, "-c", _NEIGHBOUR, str(total // 2)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        asked = int(0.8 * total)
        show("half is held by another process, 80 % are asked", preflight(command, gpus=count, memory=asked))
        show("the same, and the place is a shared one", preflight(command, gpus=count, memory=asked, shared=True))
    finally:
        holder.kill()
        holder.wait()
    show("nothing", preflight(command, gpus=count, memory=int(0.95 * total)))


def show(what: str, run: tuple[float, int, dict[str, Any]]) -> None:
    """One row."""
    seconds, code, result = run
    found = "; ".join(" ".join(f"{key}={value}" for key, value in finding.items()) for finding in result["findings"])
    print(f"| {what} | {seconds:.2f} | {code} | {found[:220] or 'passed'} |", flush=True)


if __name__ == "__main__":
    main()
