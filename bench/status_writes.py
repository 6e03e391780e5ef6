"""What one write of a job's status costs the API server: `python -m bench.status_writes NAME=CRD.yaml,STATUS.json …`.

Each NAME is a state of the project: its CRD of GPUJobs and the status that it writes for a placed job. One API server of its
own; the states take turns, so that a busy machine slows all of them. A job is placed, then gets ROUNDS times another
message: the patch carries the whole status, as large as the state makes it. Prints a table for bench/RESULTS.md.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tests.e2e.api_server import CRDS, GPUJOBS, NAMESPACES, ApiServer, Refused
from tests.e2e.cluster import Cluster, down, eventually, up

ROUNDS: Final = 5
WRITES: Final = 200
NAMESPACE: Final = "bench"
SPEC: Final = {
    "command": ["python", "train.py"],
    "gpuMemory": "40G",
    "preflight": "Disabled",
    "resources": {"cpu": "2"},
}


def main(states: Mapping[str, tuple[Path, Path]]) -> None:
    """Measures the states by turns."""
    with tempfile.TemporaryDirectory() as folder:
        cluster = up(Path(folder) / "cluster")
        api = ApiServer(cluster)
        try:
            api.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
            found: dict[str, list[float]] = {name: [] for name in states}
            for number in range(ROUNDS):
                for name, (crd, status) in states.items():
                    install(api, crd)
                    found[name].append(measure(cluster, api, f"{name}-{number}", json.loads(status.read_text())))
            tell(states, found)
        finally:
            api.close()
            down(cluster.dir)


def install(api: ApiServer, path: Path) -> None:
    """Applies a CRD and waits until the API server serves it."""
    done = api.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(path))
    assert done.returncode == 0, done.stderr
    name = yaml.safe_load(path.read_text())["metadata"]["name"]
    eventually(lambda: "Established" in str(api.get(CRDS, name).get("status")), 30, what="the CRD")
    # The handler of the changed kind is made again with the first requests.
    time.sleep(3)


def measure(cluster: Cluster, api: ApiServer, name: str, status: dict[str, Any]) -> float:
    """CPU milliseconds of the API server for one status write of a placed job."""
    path = GPUJOBS.format(NAMESPACE)
    body = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob", "metadata": {"name": name}, "spec": SPEC}
    eventually(lambda: _created(api, path, body), 30, what="the job")
    began = 0.0
    for number, message in enumerate(_messages()):
        if number == 1:
            began = _cpu(cluster)
        status["conditions"][0]["message"] = message
        api.patch(path, name, {"status": status}, "status")
    return 1000 * (_cpu(cluster) - began) / WRITES


def _messages() -> Iterator[str]:
    return (f"pool-{number:03} is the only pool with room at $2.10 an hour" for number in range(WRITES + 1))


def _created(api: ApiServer, path: str, body: dict[str, Any]) -> bool:
    try:
        return bool(api.create(path, body))
    except Refused:
        return False


def _cpu(cluster: Cluster) -> float:
    process = cluster.process("kube-apiserver")
    assert process is not None
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def tell(states: Mapping[str, tuple[Path, Path]], found: Mapping[str, list[float]]) -> None:
    """Prints the table."""
    print("| state | status, bytes | CPU of the API server for a write, ms (median; least to most) |\n|---|---|---|")
    for name, figures in found.items():
        size = len(json.dumps(json.loads(states[name][1].read_text()), separators=(",", ":")))
        print(f"| {name} | {size} | {statistics.median(figures):.2f} ({min(figures):.2f} to {max(figures):.2f}) |")


if __name__ == "__main__":
    parts = (word.partition("=") for word in sys.argv[1:])
    main({name: (Path(files.split(",")[0]), Path(files.split(",")[1])) for name, _, files in parts})
