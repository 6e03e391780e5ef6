"""What the operator's process takes: memory and CPU with 0, 1,000 and 10,000 GPUJobs, the figures of the chart's `resources`.

    make cluster-up && python -m bench.operator_resources [JOBS ...] [--finished [JOBS ...]] [--kept [JOBS ...]]

The operator runs as a process with the rights of the chart's ServiceAccount on a real API server with simulated nodes, and four clients
make the jobs. Those that wait are of 40 demands, each for more GPUs than are free. Those that finish (--finished, before the others)
have a GPU each, run for a second, and stay with their child Job and its pod. Those that are kept (--kept, between the two) are
copies of one that finished, with its child Job and its pod, made while the operator is off: 10,000 in minutes. Memory is the
resident set; CPU is that from the first job until nothing is written any more, and that of 30 s at rest.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from gpujob.values.names import child_name
from gpujob.values.vocabulary import Label
from tests.e2e.api_server import GPUJOBS, JOBS, NAMESPACES, NODES, PODS, ApiServer, AuditLog, Object
from tests.e2e.chart import install_chart
from tests.e2e.cluster import Cluster, eventually
from tests.e2e.cluster.state import require
from tests.e2e.operator_process import OperatorProcess, operator_kubeconfig
from tests.e2e.team import Team

WAITING: Final = "waiting"
KEPT: Final = "kept"
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
        self._made = {WAITING: 0, FINISHED: 0, KEPT: 0}
        assert cluster.audit_log is not None, "this cluster has no audit log to read"
        self._audit = AuditLog(cluster.audit_log)

    def until(self, jobs: int, kind: str) -> str:
        """Makes jobs of a kind until there are so many; a row of the table."""
        making = {WAITING: self._wait, FINISHED: self._finish, KEPT: self._keep}[kind]
        began, before = time.monotonic(), self.operator.cpu_seconds()
        if kind == KEPT:
            self.operator.stop()
        with ThreadPoolExecutor(CLIENTS) as pool:
            numbers = [range(self._made[kind] + start, jobs, CLIENTS) for start in range(CLIENTS)]
            list(pool.map(making, numbers))
        self._made[kind] = jobs
        if kind == KEPT:
            self.operator.start_without_waiting_for_the_lease()
            began, before = time.monotonic(), 0.0
        self._until_quiet()
        used, seconds = self.operator.cpu_seconds() - before, time.monotonic() - began
        at_rest = self.operator.cpu_seconds()
        time.sleep(AT_REST)
        rest = 1000 * (self.operator.cpu_seconds() - at_rest) / AT_REST
        there = f"{self._made[FINISHED] + self._made[KEPT]:,} | {self._made[WAITING]:,}"
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

    def _keep(self, numbers: range) -> None:
        client = ApiServer(self._cluster)
        try:
            job = client.get(GPUJOBS.format("bench"), "done-0")
            child = client.get(JOBS.format("bench"), job["status"]["jobName"])
            (pod,) = client.items(PODS.format("bench"), f"{Label.JOB_UID}={job['metadata']['uid']}")
            for number in numbers:
                copy_of_finished(client, f"kept-{number}", job, child, pod)
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


def copy_of_finished(api: ApiServer, name: str, job: Object, child: Object, pod: Object) -> None:
    """One more ended job with its child Job and its pod, under names and uids of its own."""
    jobs, children, pods = (path.format("bench") for path in (GPUJOBS, JOBS, PODS))
    names = {job["metadata"]["name"]: name}
    made = api.create(jobs, {**renamed(job, names), "status": {}})
    names |= {job["metadata"]["uid"]: made["metadata"]["uid"]}
    names |= {child["metadata"]["name"]: child_name(name, made["metadata"]["uid"], 1)}
    body = renamed(child, names)
    # Another controller's, so that the API server's own leaves it as it is.
    body["spec"] = {key: held for key, held in body["spec"].items() if key != "selector"} | {"managedBy": "bench/kept"}
    for labels in (body["metadata"]["labels"], body["spec"]["template"]["metadata"]["labels"]):
        for key in [key for key in labels if "gpujob.dev" not in key]:
            del labels[key]
    held = api.create(children, body)
    names |= {child["metadata"]["uid"]: held["metadata"]["uid"]}
    api.patch(children, held["metadata"]["name"], {"status": child["status"]}, "status")
    stays = renamed(pod, names)
    stays["metadata"] |= {"finalizers": None, "name": f"{held['metadata']['name']}-0-kept"}
    # No kubelet has its node, so that none runs it again.
    spec = {key: held for key, held in stays["spec"].items() if key not in ("affinity", "priority", "preemptionPolicy")}
    stays["spec"] = spec | {"nodeName": "kept", "tolerations": [{"operator": "Exists"}]}
    api.create(pods, stays)
    api.patch(pods, stays["metadata"]["name"], {"status": renamed(pod["status"], names)}, "status")
    api.patch(jobs, name, {"status": renamed(job["status"], names)}, "status")


def renamed(obj: Object, names: dict[str, str]) -> Object:
    """The object as it can be created again, with other names and uids wherever they stand."""
    text = json.dumps(obj)
    for old, new in names.items():
        text = text.replace(old, new)
    found: Object = json.loads(text)
    for key in ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"):
        found.get("metadata", {}).pop(key, None)
    return found


def main() -> None:
    """Prints a table for bench/RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", type=int, nargs="*", default=[0, 1000, 10000])
    parser.add_argument("--finished", type=int, nargs="*", default=[])
    parser.add_argument("--kept", type=int, nargs="*", default=[])
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
        if counts.kept:
            api.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "kept"}})
        for kind, all_of_them in ((FINISHED, counts.finished), (KEPT, counts.kept), (WAITING, counts.jobs)):
            for jobs in all_of_them:
                print(bench.until(jobs, kind), flush=True)
    finally:
        bench.operator.stop()
        api.close()
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
