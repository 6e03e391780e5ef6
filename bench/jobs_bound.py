"""What a GPUJob costs beside a plain Job: seconds until all pods are bound, CPU, and requests; all in one run.

    make cluster-up && python -m bench.jobs_bound [JOBS] [ROUNDS]

Rounds of plain Jobs (the floor: the same pods, made by hand) and of GPUJobs alternate on one cluster, so that a busy
machine slows both; the median of the ratios is told, and absolute figures only to be read beside them. The operator
runs as a process with the rights of the chart's ServiceAccount. Pods are bound and pretended, not run.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tests.e2e.api_server import GPUPOOLS, JOBS, NAMESPACES, ApiServer, AuditLog, Refused
from tests.e2e.cluster import Cluster, eventually
from tests.e2e.cluster.state import require
from tests.e2e.conftest import install_chart
from tests.e2e.operator_process import OperatorProcess, operator_kubeconfig
from tests.e2e.team import Team

RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")


@dataclass(frozen=True)
class Round:
    """What one round of jobs took: seconds until all were bound, CPU seconds, and the requests of the operator."""

    seconds: float
    server_cpu: float
    operator_cpu: float
    requests: Counter[str]


def main(jobs: int, rounds: int) -> None:
    """Runs the rounds and prints the ratios."""
    cluster = require()
    install_chart(cluster)
    api = ApiServer(cluster)
    kubeconfig = operator_kubeconfig(api, cluster.dir / "operator-bench.kubeconfig")
    operator = OperatorProcess(cluster, api, kubeconfig, "bench")
    try:
        operator.start_without_waiting_for_the_lease()
        eventually(lambda: _pools(api), 60, what="published pools")
        plain, ours = [], []
        for number in range(rounds):
            plain.append(_round(cluster, api, operator, f"bench-plain-{number}", jobs, _submit_plain))
            ours.append(_round(cluster, api, operator, f"bench-gpujob-{number}", jobs, _submit_gpujob))
        _tell(jobs, plain, ours)
    finally:
        operator.stop()
        api.close()


def _pools(api: ApiServer) -> int:
    """How many pools are published; none while the API server still opens the storage of a new kind (429)."""
    try:
        return len(api.items(GPUPOOLS))
    except Refused:
        return 0


def _round(
    cluster: Cluster,
    api: ApiServer,
    operator: OperatorProcess,
    namespace: str,
    jobs: int,
    submit: Callable[[Team, int], None],
) -> Round:
    api.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    eventually(lambda: api.find(f"{NAMESPACES}/{namespace}/serviceaccounts", "default"), 30, what="the service account")
    team, audit = Team(api, namespace), AuditLog(cluster.audit_log) if cluster.audit_log else None
    mark = audit.now() if audit else 0
    before = operator.cpu_seconds(), _server_cpu(cluster)
    began = time.monotonic()
    for number in range(jobs):
        submit(team, number)
    eventually(lambda: sum(bool(pod["spec"].get("nodeName")) for pod in team.pods()) == jobs, 300, what="all bound")
    seconds = time.monotonic() - began
    # What is told of the pods that run by now belongs to the jobs too.
    time.sleep(3)
    used = operator.cpu_seconds() - before[0], _server_cpu(cluster) - before[1]
    requests: Counter[str] = Counter()
    for entry in audit.since(mark) if audit else ():
        target = entry.get("objectRef", {})
        if target.get("namespace") == namespace:
            what = "/".join(filter(None, (target["resource"], target.get("subresource"))))
            requests[f"{entry['verb']} {what}"] += 1
    team.clear()
    api.delete(NAMESPACES, namespace)
    return Round(seconds, used[1], used[0], requests)


def _submit_gpujob(team: Team, number: int) -> None:
    team.submit(f"job-{number}")


def _submit_plain(team: Team, number: int) -> None:
    container = {
        "name": "main",
        "image": "none",
        "resources": {"limits": {RESOURCES[number % len(RESOURCES)]: "1"}},
    }
    pod = {"restartPolicy": "Never", "containers": [container], "tolerations": [{"operator": "Exists"}]}
    spec = {"backoffLimit": 0, "template": {"spec": pod}}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": f"job-{number}"}, "spec": spec}
    team.api.create(JOBS.format(team.namespace), body)


def _server_cpu(cluster: Cluster) -> float:
    """CPU seconds that the API server has used; 0 where its process is not ours to see."""
    process = cluster.process("kube-apiserver")
    if process is None:
        return 0.0
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _tell(jobs: int, plain: list[Round], ours: list[Round]) -> None:
    def ratio(figure: Callable[[Round], float]) -> float:
        pairs = zip(plain, ours, strict=True)
        return statistics.median(figure(mine) / max(figure(floor), 1e-9) for floor, mine in pairs)

    def median(rounds: list[Round], figure: Callable[[Round], float]) -> float:
        return statistics.median(figure(each) for each in rounds)

    print(f"{jobs} jobs of one GPU, {len(ours)} rounds, medians; plain Jobs are 1")
    print(
        f"seconds until all are bound   {ratio(lambda r: r.seconds):5.2f}   ({median(ours, lambda r: r.seconds):.1f} s)"
    )
    print(f"CPU of the API server         {ratio(lambda r: r.server_cpu):5.2f}")
    of_operator = statistics.median(each.operator_cpu / max(each.server_cpu, 1e-9) for each in ours)
    per_job = 1000 * median(ours, lambda r: r.operator_cpu) / jobs
    print(f"CPU of the operator beside it {of_operator:5.2f}   ({per_job:.1f} ms a job)")
    requests = sum((each.requests for each in ours), Counter())
    for what, count in requests.most_common():
        print(f"requests a job: {what:24} {count / jobs / len(ours):5.2f}")


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:3]]
    main(*given, *(100, 3)[len(given) :])
