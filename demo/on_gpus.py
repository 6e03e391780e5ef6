"""`make verify-on-gpu`: small jobs on every vendor of a real cluster, and one archive of what came of them, to send.

It needs kubectl with the plugin `gpujob`, an installed operator and the right to submit GPUJobs. Each vendor that has a pool gets a job
of one GPU, which compares a matrix product with that of the CPU, and one of two GPUs, which sums over both with torchrun. The
jobs are deleted afterwards. `docs/guides/run-on-your-gpus.md` says what the archive holds and where to send it.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tarfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

KUBECTL: Final = "kubectl"
ENDED: Final = ("Succeeded", "Failed", "Misconfigured", "Impossible")

PRODUCT: Final = """
import platform, torch
device = torch.device("cuda")
print("torch", torch.__version__, "cuda", torch.version.cuda, "hip", torch.version.hip, "python", platform.python_version())
print("device", torch.cuda.get_device_name(0), "architecture", getattr(torch.cuda.get_device_properties(0), "gcnArchName", "")
      or torch.cuda.get_device_capability(0), "memory", torch.cuda.mem_get_info(0))
torch.manual_seed(0)
a, b = torch.randn(512, 512), torch.randn(512, 512)
for kind, most in ((torch.float32, 1e-3), (torch.bfloat16, 2e-1)):
    found = (a.to(device, kind) @ b.to(device, kind)).float().cpu()
    wrong = ((found - a @ b).abs().max() / (a @ b).abs().max()).item()
    print("product", kind, "off by", wrong)
    assert wrong < most, (kind, wrong)
"""
SUM: Final = """
import os, torch, torch.distributed as dist
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
value = torch.full((1024, 1024), float(rank + 1), device="cuda")
dist.all_reduce(value)
assert value.unique().tolist() == [3.0], value
print("rank", dist.get_rank(), "of", dist.get_world_size(), "sums to", value[0, 0].item(), "on", torch.cuda.get_device_name())
dist.destroy_process_group()
"""


@dataclass(frozen=True, slots=True)
class Trial:
    """One job: its name, its vendor, and what became of it."""

    name: str
    vendor: str
    gpus: int

    def manifest(self) -> dict[str, Any]:
        """The GPUJob; a program that fails is not tried again, so that its log is the one that counts."""
        one = {"command": ["python3", "-c", PRODUCT]}
        two = {"command": ["sh", "-c", 'printf %s "$0" > /tmp/sum.py && torchrun --nproc-per-node=2 /tmp/sum.py', SUM]}
        spec = {
            **(one if self.gpus == 1 else two),
            "gpusPerNode": self.gpus,
            "placement": {"vendors": [self.vendor]},
            "retries": {"user": 0},
        }
        return {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob", "metadata": {"name": self.name}, "spec": spec}


class Cluster:
    """Calls of kubectl in one namespace."""

    def __init__(self, namespace: str, kubectl: str = KUBECTL) -> None:
        self._command = [kubectl, "--namespace", namespace]
        self._plugin = [kubectl, "gpujob"]
        self._namespace = namespace

    def call(self, *words: str, stdin: str | None = None) -> tuple[int, str]:
        """Exit code and everything that kubectl printed."""
        return _call([*self._command, *words], stdin)

    def plugin(self, *words: str) -> tuple[int, str]:
        """The same of `kubectl gpujob`."""
        return _call([*self._plugin, *words], None)

    def state(self, name: str) -> str:
        """The state of a GPUJob; empty where it has none."""
        code, text = self.call("get", "gpujob", name, "--output=jsonpath={.status.state}")
        return text.strip() if code == 0 else ""


def _call(command: Sequence[str], stdin: str | None) -> tuple[int, str]:
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stdout if done.returncode == 0 else done.stdout + done.stderr


def trials_for(pools: Sequence[dict[str, Any]], mark: str) -> list[Trial]:
    """The jobs for what a cluster has: one GPU of each vendor, and two where a pool counts as many."""
    made = []
    for vendor in ("AMD", "NVIDIA"):
        most = max((int(pool["gpus"]["total"]) for pool in pools if pool.get("vendor") == vendor), default=0)
        made += [Trial(f"verify-{vendor.lower()}-{gpus}-{mark}", vendor, gpus) for gpus in (1, 2) if gpus <= most]
    return made


def wait(cluster: Cluster, trials: Sequence[Trial], seconds: float, pause: float = 5.0) -> dict[str, str]:
    """The states of the jobs once all ended, or when the time is up."""
    until = time.monotonic() + seconds
    while True:
        states = {trial.name: cluster.state(trial.name) for trial in trials}
        if all(state in ENDED for state in states.values()) or time.monotonic() >= until:
            return states
        time.sleep(pause)


def evidence(cluster: Cluster, trials: Sequence[Trial], namespace: str) -> dict[str, str]:
    """The files of the archive by name: the cluster as the planner reads it, redacted, and each job with its log."""
    files = {
        "version.json": cluster.call("version", "--output=json")[1],
        "cluster.yaml": cluster.plugin("capture")[1],
        "pools.json": cluster.plugin("pools", "-o", "json")[1],
        "doctor.json": cluster.plugin("doctor", "-o", "json", "-n", namespace)[1],
    }
    for trial in trials:
        files[f"{trial.name}/gpujob.json"] = cluster.call("get", "gpujob", trial.name, "--output=json")[1]
        files[f"{trial.name}/log.txt"] = cluster.plugin("logs", trial.name, "-n", namespace)[1]
        about = f"involvedObject.kind=GPUJob,involvedObject.name={trial.name}"
        files[f"{trial.name}/events.txt"] = cluster.call("get", "events", f"--field-selector={about}")[1]
    return files


def pack(files: dict[str, str], path: Path) -> None:
    """Writes the archive."""
    with tarfile.open(path, "w:gz") as archive:
        for name, text in sorted(files.items()):
            body = text.encode()
            entry = tarfile.TarInfo(f"verify-on-gpu/{name}")
            entry.size = len(body)
            archive.addfile(entry, io.BytesIO(body))


def verify(cluster: Cluster, namespace: str, seconds: float, path: Path, pause: float = 5.0) -> int:
    """Runs the jobs, writes the archive and prints a line for each; 0 when all Succeeded."""
    code, text = cluster.plugin("pools", "-o", "json")
    if code:
        print(f"kubectl gpujob pools failed, so nothing was submitted: {text.strip()}", file=sys.stderr)
        return 2
    trials = trials_for(json.loads(text), uuid.uuid4().hex[:6])
    if not trials:
        print("no pool has a GPU: `kubectl gpujob doctor` says why", file=sys.stderr)
        return 2
    states: dict[str, str] = {}
    try:
        for trial in trials:
            code, text = cluster.call("create", "-f", "-", stdin=json.dumps(trial.manifest()))
            if code:
                print(f"{trial.name} was not accepted: {text.strip()}", file=sys.stderr)
                return 2
        print(f"submitted {', '.join(trial.name for trial in trials)}; waiting at most {seconds:g} s", flush=True)
        states = wait(cluster, trials, seconds, pause)
        pack(evidence(cluster, trials, namespace), path)
    finally:
        cluster.call("delete", "gpujob", "--ignore-not-found", "--wait=false", *(trial.name for trial in trials))
    for trial in trials:
        print(f"{trial.vendor:7} {trial.gpus} GPU  {states[trial.name] or 'without a state: no operator saw it'}")
    print(f"wrote {path}: read it before you send it; docs/guides/run-on-your-gpus.md says where")
    return 0 if all(state == "Succeeded" for state in states.values()) else 1


def main() -> int:
    """The command line."""
    options = argparse.ArgumentParser(prog="make verify-on-gpu", description=__doc__)
    options.add_argument("--namespace", default="default")
    options.add_argument("--seconds", type=float, default=1800.0)
    options.add_argument("--archive", type=Path, default=Path("verify-on-gpu.tar.gz"))
    given = options.parse_args()
    return verify(Cluster(given.namespace), given.namespace, given.seconds, given.archive)


if __name__ == "__main__":
    sys.exit(main())
