"""What the operator's process takes: memory and CPU with 0, 1,000 and 10,000 GPUJobs, the figures of the chart's `resources`.

    make cluster-up && python -m bench.operator_resources [JOBS ...] [--finished [JOBS ...]]

The operator runs as a process with the rights of the chart's ServiceAccount on a real API server with pretended nodes, and four clients
make the jobs. Those that wait are of 40 demands, each for more GPUs than are free. Those that finish (--finished, before the others)
have a GPU each, run for a second, and stay with their child Job and its pod. Memory is the resident set; CPU is that from the first
job until nothing is written any more, and that of 30 s at rest.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests.e2e.api_server import NAMESPACES, ApiServer, AuditLog
from tests.e2e.chart import install_chart
from tests.e2e.cluster import Cluster, eventually
from tests.e2e.cluster.state import require
from tests.e2e.operator_process import OperatorProcess, operator_kubeconfig
from tests.e2e.team import Team

WAITING: Final = "waiting"
FINISHED: Final = "finished"
CLIENTS: Final = 4
DEMANDS: Final = 40
AT_REST: Final = 30.0
"""Seconds over which a process at rest is looked at."""
QUIET: Final = 10.0
"""Seconds without a write of a job's status after which all are written."""


class Bench:
    """One cluster and one operator, whose jobs become more."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._api = cluster, ApiServer(cluster)
        kubeconfig = operator_kubeconfig(self._api, cluster.dir / "operator-bench.kubeconfig")
        self.operator = OperatorProcess(cluster, self._api, kubeconfig, "bench")
        self._made = {WAITING: 0, FINISHED: 0}
        assert cluster.audit_log is not None, "this cluster has no audit log to read"
        self._audit = AuditLog(cluster.audit_log)

    def until(self, jobs: int, kind: str) -> str:
        """Makes jobs of a kind until there are so many; a row of the table."""
        began, before = time.monotonic(), self.operator.cpu_seconds()
        with ThreadPoolExecutor(CLIENTS) as pool:
            numbers = [range(self._made[kind] + start, jobs, CLIENTS) for start in range(CLIENTS)]
            list(pool.map(self._wait if kind == WAITING else self._finish, numbers))
        self._made[kind] = jobs
        self._until_quiet()
        used, seconds = self.operator.cpu_seconds() - before, time.monotonic() - began
        at_rest = self.operator.cpu_seconds()
        time.sleep(AT_REST)
        rest = 1000 * (self.operator.cpu_seconds() - at_rest) / AT_REST
        there = f"{self._made[FINISHED]:,} | {self._made[WAITING]:,}"
        return f"| {there} | {self._memory('VmRSS')} | {self._memory('VmHWM')} | {used:.1f} in {seconds:.0f} | {rest:.1f} |"

    def _wait(self, numbers: range) -> None:
        client = ApiServer(self._cluster)
        try:
            for number in numbers:
                # No node has so many devices free, so that the job waits.
                Team(client, "bench").submit(
                    f"job-{number}", gpusPerNode=8, nodes=2 + number % DEMANDS, preflight="Disabled"
                )
        finally:
            client.close()

    def _finish(self, numbers: range) -> None:
        client = ApiServer(self._cluster)
        try:
            for number in numbers:
                Team(client, "bench").submit(f"done-{number}", runs_for="1s", gpusPerNode=1, preflight="Disabled")
        finally:
            client.close()

    def _until_quiet(self) -> None:
        mark, since = self._audit.now(), time.monotonic()

        def quiet() -> bool:
            nonlocal mark, since
            written = any(
                entry.get("objectRef", {}).get("subresource") == "status" for entry in self._audit.since(mark)
            )
            mark = self._audit.now()
            since = time.monotonic() if written else since
            return time.monotonic() - since > QUIET

        eventually(quiet, 1800, what="statuses of all jobs", every=1)

    def _memory(self, member: str) -> str:
        lines = Path(f"/proc/{self.operator.pid}/status").read_text().splitlines()
        (kilobytes,) = (line.split()[1] for line in lines if line.startswith(f"{member}:"))
        return f"{int(kilobytes) / 1024:.0f}"


def main() -> None:
    """Prints a table for bench/RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", type=int, nargs="*", default=[0, 1000, 10000])
    parser.add_argument("--finished", type=int, nargs="*", default=[])
    counts = parser.parse_args()
    cluster = require()
    install_chart(cluster)
    bench = Bench(cluster)
    api = ApiServer(cluster)
    api.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"}})
    try:
        bench.operator.start_without_waiting_for_the_lease()
        print(
            "| finished | waiting | memory, MiB | most so far, MiB | CPU s until all are written, in s of the clock | CPU at rest, "
            "millicores |"
        )
        print("|---|---|---|---|---|---|")
        for kind, all_of_them in ((FINISHED, counts.finished), (WAITING, counts.jobs)):
            for jobs in all_of_them:
                print(bench.until(jobs, kind), flush=True)
    finally:
        bench.operator.stop()
        api.close()
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
