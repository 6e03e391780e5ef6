"""What a GPUJob costs beside a plain Job: CPU of the API server and of the operator, jobs bound a second, and requests; in one run.

    make cluster-up && python -m bench.jobs_bound [JOBS] [ROUNDS] [--preflight] [--beside OTHER_CHECKOUT] [--kueue]

Rounds of plain Jobs (the floor: the same pods, made by hand) and of GPUJobs alternate on one cluster, so that a busy
machine slows both. What the API server uses at rest in the same time (leases of 200 simulated nodes, watches) is not
counted: it would be more for each job where jobs are slower. What it allocates depends least on other programs. With
another checkout its operator and its chart take turns with those of this one. The operator runs as a process with the
rights of the chart's ServiceAccount. Pods are bound and simulated, not run; without `--preflight` the jobs have none, as
plain Jobs. With `--kueue` the same plain Jobs go through Kueue's queue too, which is built on the first call (minutes).
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from bench.kueue.manager import QUEUE, Kueue
from bench.operator_cpu import cpu_seconds
from tests.e2e.api_server import GPUPOOLS, JOBS, NAMESPACES, PODS, ApiServer, AuditLog, Refused
from tests.e2e.cluster import Cluster, eventually
from tests.e2e.cluster.state import require
from tests.e2e.operator_process import ROOT, OperatorProcess, operator_kubeconfig
from tests.e2e.team import Team

RESOURCES: Final = ("nvidia.com/gpu", "amd.com/gpu")
INSTALL: Final = (
    "from tests.e2e.chart import install_chart; from tests.e2e.cluster.state import require; install_chart(require())"
)
CLIENTS: Final = 8
"""Clients that submit at the same time: one waits for each answer, so its pace would be the measured one."""

REST: Final = 5.0
"""Seconds for which the API server is watched at rest before each round; the least of all rounds counts."""

SETTLED: Final = 3.0
"""Seconds after the last pod is bound: status writes about pods that run by now count too."""


Used = dict[str, float]
"""CPU seconds of each process, and MB that the API server allocated."""
SERVER: Final = "kube-apiserver"
CONTROLLER: Final = "controller"
"""The operator, or Kueue."""
CLIENT: Final = "client"
"""This bench and its `kubectl proxy`."""
ALLOCATED: Final = "MB"


@dataclass(frozen=True)
class Round:
    """What one round of jobs took: seconds until all were bound and of the whole round, what was used, requests of the operator."""

    seconds: float
    whole: float
    used: Used
    requests: Counter[str]

    def without(self, at_rest: Used) -> Round:
        """The round without what is used in each second at rest."""
        return replace(self, used={what: much - self.whole * at_rest.get(what, 0) for what, much in self.used.items()})

    @property
    def cpu(self) -> float:
        """CPU seconds of all processes."""
        return sum(self.used.values()) - self.used[ALLOCATED]


class Connection(ApiServer):
    """Another connection through the proxy of an ApiServer, for a thread of its own."""

    def __init__(self, api: ApiServer) -> None:
        self.cluster, self.port = api.cluster, api.port
        self._connection = http.client.HTTPConnection("127.0.0.1", api.port, timeout=60)

    def close(self) -> None:
        """Closes the connection; the proxy goes on."""
        self._connection.close()


class BoundPods:
    """The pods of a namespace that are bound, by one watch: lists in turn would cost the API server most where jobs are slowest."""

    def __init__(self, api: ApiServer, namespace: str) -> None:
        self.names: set[str] = set()
        self._connection = http.client.HTTPConnection("127.0.0.1", api.port, timeout=600)
        self._connection.request("GET", f"{PODS.format(namespace)}?watch=true")
        self._answer = self._connection.getresponse()
        threading.Thread(target=self._follow, daemon=True).start()

    def close(self) -> None:
        """Ends the watch."""
        if self._connection.sock is not None:
            self._connection.sock.shutdown(socket.SHUT_RDWR)

    def _follow(self) -> None:
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
            for line in self._answer:
                pod = json.loads(line)["object"]
                if pod["spec"].get("nodeName"):
                    self.names.add(pod["metadata"]["name"])
        self._connection.close()


@dataclass(frozen=True)
class Bench:
    """The cluster, and what is run on it."""

    cluster: Cluster
    api: ApiServer
    jobs: int
    preflight: bool
    at_rest: list[Used] = field(default_factory=list)
    """What is used in a second before each round."""

    def turn_of_kueue(self, kueue: Kueue, name: str) -> tuple[Round, Round]:
        """A round of plain Jobs, and one of the same Jobs in Kueue's queue."""
        floor = self._round(lambda: 0.0, f"plain-{name}", self._plain)
        try:
            kueue.start()
            self._until_quiet()
            return floor, self._round(kueue.cpu_seconds, f"queue-{name}", self._queued, kueue.queue)
        finally:
            kueue.stop()

    def turn(self, tree: Path, name: str) -> tuple[Round, Round]:
        """A round of plain Jobs and one of GPUJobs beside the operator of a checkout."""
        paths = os.pathsep.join((str(tree / "operator"), str(tree)))
        environment = os.environ | {"PYTHONPATH": paths, "CLUSTER_DIR": str(self.cluster.dir)}
        subprocess.run([sys.executable, "-c", INSTALL], env=environment, cwd=tree, check=True)
        kubeconfig = operator_kubeconfig(self.api, self.cluster.dir / "operator-bench.kubeconfig")
        operator = OperatorProcess(self.cluster, self.api, kubeconfig, "bench")
        operator.settings["PYTHONPATH"] = paths
        try:
            operator.start_without_waiting_for_the_lease()
            eventually(self._pools, 60, what="published pools")
            self._until_quiet()
            cpu = operator.cpu_seconds
            return self._round(cpu, f"plain-{name}", self._plain), self._round(cpu, f"jobs-{name}", self._job)
        finally:
            operator.stop()

    def _round(
        self,
        controller_cpu: Callable[[], float],
        namespace: str,
        submit: Callable[[Team, int], None],
        prepare: Callable[[str], None] = lambda namespace: None,
    ) -> Round:
        api = self.api
        api.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        eventually(lambda: api.find(f"{NAMESPACES}/{namespace}/serviceaccounts", "default"), 30, what="the account")
        prepare(namespace)
        team, log = Team(api, namespace), self.cluster.audit_log
        audit = AuditLog(log) if log else None
        mark = audit.now() if audit else 0
        bound = BoundPods(api, namespace)
        self.at_rest.append(self._rest())
        before = self._used() | {CONTROLLER: controller_cpu()}
        began = time.monotonic()
        with ThreadPoolExecutor(CLIENTS) as clients:
            list(clients.map(lambda client: self._submit(namespace, submit, client), range(CLIENTS)))
        eventually(lambda: len(bound.names) == self.jobs, 300, what="all bound", every=0.02)
        seconds = time.monotonic() - began
        bound.close()
        time.sleep(SETTLED)
        used = difference(before, self._used() | {CONTROLLER: controller_cpu()})
        took = time.monotonic() - began
        requests: Counter[str] = Counter()
        for entry in audit.since(mark) if audit else ():
            target = entry.get("objectRef", {})
            if target.get("namespace") == namespace:
                what = "/".join(filter(None, (target["resource"], target.get("subresource"))))
                requests[f"{entry['verb']} {what}"] += 1
        api.delete(NAMESPACES, namespace)
        eventually(lambda: not team.pods(), 180, what="an empty namespace", every=1)
        self._until_quiet()
        return Round(seconds, took, used, requests)

    def _submit(self, namespace: str, submit: Callable[[Team, int], None], client: int) -> None:
        """Submits every CLIENTS-th job, over a connection of its own."""
        team = Team(Connection(self.api), namespace)
        for number in range(client, self.jobs, CLIENTS):
            submit(team, number)
        team.api.close()

    def _pools(self) -> int:
        """How many pools are published; none while the API server still opens the storage of a new kind (429)."""
        try:
            return len(self.api.items(GPUPOOLS))
        except Refused:
            return 0

    def _job(self, team: Team, number: int) -> None:
        team.submit(f"job-{number}", **({} if self.preflight else {"preflight": "Disabled"}))

    def _queued(self, team: Team, number: int) -> None:
        self._plain(team, number, {"kueue.x-k8s.io/queue-name": QUEUE})

    def _plain(self, team: Team, number: int, labels: dict[str, str] | None = None) -> None:
        container = {
            "name": "main",
            "image": "none",
            "resources": {"limits": {RESOURCES[number % len(RESOURCES)]: "1"}},
        }
        pod = {"restartPolicy": "Never", "containers": [container], "tolerations": [{"operator": "Exists"}]}
        spec = {"backoffLimit": 0, "template": {"spec": pod}}
        metadata = {"name": f"job-{number}", "labels": labels or {}}
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
        team.api.create(JOBS.format(team.namespace), body)

    def _used(self) -> Used:
        """What was used so far; nothing of processes that are not ours to see."""
        connection = http.client.HTTPConnection("127.0.0.1", self.api.port, timeout=60)
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
        connection.close()
        allocated = next(line for line in lines if line.startswith("go_memstats_alloc_bytes_total "))
        # A chart's installation restarts one of them.
        cluster = require(self.cluster.dir)
        used = {each.name: cpu_seconds(each.pid) for each in cluster.processes}
        proxy = cluster.process("kubectl-proxy")
        clients = time.process_time() + (cpu_seconds(proxy.pid) if proxy else 0)
        return used | {CLIENT: clients, ALLOCATED: float(allocated.split()[1]) / 1e6}

    def _rest(self) -> Used:
        """The same for a second without jobs."""
        before, began = self._used(), time.monotonic()
        time.sleep(REST)
        took = time.monotonic() - began
        return {what: much / took for what, much in difference(before, self._used()).items()}

    def _until_quiet(self) -> None:
        """Waits until the API server has done what a new schema or many deletions give it to do; 45 s where others use its cores."""

        def quiet() -> bool:
            before = self._used()
            time.sleep(1)
            return difference(before, self._used()).get(SERVER, 0) < 0.25

        with contextlib.suppress(TimeoutError):
            eventually(quiet, 45, what="an API server at rest")


def main() -> None:
    """Runs the rounds and prints a table for bench/RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("jobs", type=int, nargs="?", default=100)
    parser.add_argument("rounds", type=int, nargs="?", default=3)
    parser.add_argument("--preflight", action="store_true")
    parser.add_argument("--beside", type=Path)
    parser.add_argument("--kueue", action="store_true")
    options = parser.parse_args()
    trees = {"now": ROOT} | ({"before": options.beside.absolute()} if options.beside else {})
    cluster = require()
    api = ApiServer(cluster)
    bench = Bench(cluster, api, options.jobs, options.preflight)
    turns: dict[str, Callable[[str], tuple[Round, Round]]] = {
        f"GPUJobs, {name}": partial(bench.turn, tree) for name, tree in trees.items()
    }
    if options.kueue:
        turns["Jobs through Kueue"] = partial(bench.turn_of_kueue, Kueue(cluster, api))
    taken: dict[str, list[tuple[Round, Round]]] = {name: [] for name in turns}
    load = [os.getloadavg()[0]]
    try:
        for number in range(options.rounds):
            for place, (name, turn) in enumerate(turns.items()):
                taken[name].append(turn(f"{place}-{number}"))
                load.append(os.getloadavg()[0])
    finally:
        api.close()
    print(f"{options.jobs} jobs of one GPU, {options.rounds} rounds, medians; load {min(load):.1f} to {max(load):.1f}")
    rest = {what: min(each[what] for each in bench.at_rest) for what in bench.at_rest[0]}
    print(f"at rest the API server uses {1000 * rest.get(SERVER, 0):.0f} ms and {rest[ALLOCATED]:.1f} MB a second")
    tell(
        {name: [(plain.without(rest), mine.without(rest)) for plain, mine in turns] for name, turns in taken.items()},
        options.jobs,
    )


def difference(before: Used, after: Used) -> Used:
    """What was used between two moments."""
    return {what: much - before[what] for what, much in after.items()}


def tell(taken: dict[str, list[tuple[Round, Round]]], jobs: int) -> None:
    """Prints a row for each state, what each process used for it, then what the operator asked for."""
    floors = [(plain, plain) for turns in taken.values() for plain, _ in turns]
    rows = {"plain Jobs": floors} | taken
    print(
        "| what | API server, ms a job | above the floor | MB a job | controller, ms a job | all processes, ms a job"
        " | bound a second | of the floor |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, turns in rows.items():
        _row(name, turns, jobs)
    for name, turns in rows.items():
        parts = (each for each in turns[0][1].used if each != ALLOCATED)
        figures = ", ".join(f"{each} {_per_job(turns, jobs, each):.1f}" for each in parts)
        print(f"CPU in ms a job, {name}: {figures}")
    for name, turns in taken.items():
        requests = sum((mine.requests for _, mine in turns), Counter[str]())
        figures = ", ".join(f"{what} {count / jobs / len(turns):.2f}" for what, count in requests.most_common(12))
        if figures:
            print(f"requests of the operator a job, {name}: {figures}")


def _per_job(turns: list[tuple[Round, Round]], jobs: int, process: str) -> float:
    return statistics.median(1000 * mine.used.get(process, 0) / jobs for _, mine in turns)


def _row(name: str, turns: list[tuple[Round, Round]], jobs: int) -> None:
    def median(figure: Callable[[Round, Round], float]) -> float:
        return statistics.median(figure(floor, mine) for floor, mine in turns)

    server, controller = (_per_job(turns, jobs, process) for process in (SERVER, CONTROLLER))
    above = median(lambda floor, mine: 1000 * (mine.used.get(SERVER, 0) - floor.used.get(SERVER, 0)) / jobs)
    megabytes = median(lambda _, mine: mine.used[ALLOCATED] / jobs)
    whole = median(lambda _, mine: 1000 * mine.cpu / jobs)
    bound = median(lambda _, mine: jobs / mine.seconds)
    ratio = median(lambda floor, mine: floor.seconds / mine.seconds)
    print(
        f"| {name} | {server:.1f} | {above:.1f} | {megabytes:.1f} | {controller:.1f} | {whole:.1f} | {bound:.1f} | {ratio:.2f} |"
    )


if __name__ == "__main__":
    main()
