"""What a preflight adds to the start of a pod on a real node: `python -m bench.preflight_pod`, as root on Linux.

From the POST of the GPUJob to the first line of its program, and to the end of the program's import of torch; with and
without a preflight, in turns. Prints a table for bench/RESULTS.md.
"""

from __future__ import annotations

import statistics
import time
from typing import Any, Final

from tests.e2e.api_server import NAMESPACES, ApiServer
from tests.e2e.cluster import eventually
from tests.e2e.conftest import install_chart
from tests.e2e.node import store
from tests.e2e.node.cluster import real_cluster
from tests.e2e.node.training import Trainers
from tests.e2e.operator_process import OperatorProcess, operator_kubeconfig

ROUNDS: Final = 5
PLAIN: Final = "import time; print(time.time())"
TORCH: Final = "import time; print(time.time()); import torch; print(time.time())"
NAMESPACE: Final = "bench"


def main() -> None:
    """Brings nodes and an operator up, measures, and takes them down."""
    with real_cluster() as cluster:
        install_chart(cluster)
        api = ApiServer(cluster)
        process = OperatorProcess(cluster, api, operator_kubeconfig(api, cluster.dir / "operator.kubeconfig"), "bench")
        process.start().until_leading()
        try:
            api.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
            accounts = f"{NAMESPACES}/{NAMESPACE}/serviceaccounts"
            eventually(lambda: api.find(accounts, "default"), 30, what="the service account")
            measure(Trainers(api, NAMESPACE))
        finally:
            process.stop()
            api.close()


def measure(team: Trainers) -> None:
    """One table; a first round of each kind warms the node and is not counted."""
    kinds = {
        "without torch, Disabled": (store.PYTHON, PLAIN, "Disabled"),
        "without torch, Required": (store.PYTHON, PLAIN, "Required"),
        "with torch, Disabled": (store.TORCH, TORCH, "Disabled"),
        "with torch, Warn (it is imported, and finds no device)": (store.TORCH, TORCH, "Warn"),
    }
    found: dict[str, list[list[float]]] = {name: [] for name in kinds}
    for number in range(ROUNDS + 1):
        for kind_number, (name, kind) in enumerate(kinds.items()):
            seconds = start(team, f"j{number}-{kind_number}", *kind)
            if number:
                found[name].append(seconds)
    print(
        "| image, preflight | first line of the program, seconds (median, worst) | torch imported (median) |\n|---|---|---|"
    )
    for name, rows in found.items():
        first = [row[0] for row in rows]
        imported = f"{statistics.median(row[1] for row in rows):.1f}" if len(rows[0]) > 1 else ""
        print(f"| {name} | {statistics.median(first):.1f}, {max(first):.1f} | {imported} |")


def start(team: Trainers, name: str, image: str, code: str, preflight: str) -> list[float]:
    """Seconds from the POST to each time that the program printed."""
    began = time.time()
    more: dict[str, Any] = {"resources": {"cpu": "900m", "memory": "2Gi"}, "placement": {"vendors": ["NVIDIA"]}}
    uid = team.run(name, "python3", "-c", code, image=image, preflight=preflight, **more)
    state, (printed,) = team.result(name, uid, timeout=120)
    assert state == "Succeeded", (name, printed)
    return [float(line) - began for line in printed.split()]


if __name__ == "__main__":
    main()
