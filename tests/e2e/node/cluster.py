"""A cluster with real nodes: brought up in a free slot, and taken down so that nothing stays."""

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.e2e.cluster import Cluster, control_plane, down, eventually, processes
from tests.e2e.cluster.state import ClusterError, claim, load, record

from . import cgroups, machine, needs, network, programs, store
from .machine import Machine
from .slots import Slot, free_slot

MACHINES = (
    Machine(0, "amd-0", "amd", "mi210"),
    Machine(1, "amd-1", "amd", "mi210"),
    Machine(2, "nvidia-0", "nvidia", "l4"),
)
_MANIFESTS = Path(__file__).parent / "manifests"


@contextmanager
def real_cluster(machines: tuple[Machine, ...] = MACHINES) -> Iterator[Cluster]:
    """The cluster, with all nodes Ready, their devices counted and cluster DNS; it ends with the block."""
    if why := needs.missing():
        raise ClusterError(why)
    store.build()
    programs.kubernetes()
    with free_slot() as slot:
        _take_down(slot)
        try:
            yield _bring_up(slot, machines)
        finally:
            _take_down(slot)


def _bring_up(slot: Slot, machines: tuple[Machine, ...]) -> Cluster:
    claim(slot.dir)
    with ThreadPoolExecutor() as pool:
        prepared = [pool.submit(machine.prepare, each, slot) for each in machines]
        switch = network.make_switch(slot, slot.dir / "logs" / "switch.log")
        cluster = control_plane.up(slot.dir, address=slot.host)
        record(slot.dir, switch)
        for preparation in prepared:
            preparation.result()
    for each in machines:
        cluster = record(slot.dir, machine.start(each, machines, slot, cluster, switch))
    for manifest in sorted(_MANIFESTS.glob("*.yaml")):
        _kubectl(cluster, "apply", "--server-side", f"--filename={manifest}")
    names = [f"node/{each.name}" for each in machines]
    eventually(lambda: _nodes_known(cluster, names), 60, what=f"nodes that register (their logs: {slot.dir / 'logs'})")
    _kubectl(cluster, "wait", "--for=condition=Ready", *names, "--timeout=60s")
    for each in machines:
        path = each.resource.replace(".", "\\.")
        _kubectl(
            cluster, "wait", f"node/{each.name}", f"--for=jsonpath={{.status.allocatable.{path}}}", "--timeout=60s"
        )
    _kubectl(cluster, "rollout", "status", "deployment/dns", "--namespace=kube-system", "--timeout=60s")
    return cluster


def _nodes_known(cluster: Cluster, names: list[str]) -> bool:
    command = [cluster.tool("kubectl"), "get", *names, "--output=name"]
    return subprocess.run(command, check=False, capture_output=True, env=cluster.environment()).returncode == 0


def _kubectl(cluster: Cluster, *words: str) -> None:
    command = [cluster.tool("kubectl"), *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=cluster.environment())
    if done.returncode:
        raise ClusterError(f"`kubectl {' '.join(words)}`: {done.stderr.strip()}; logs: {cluster.dir / 'logs'}")


def _take_down(slot: Slot) -> None:
    """Ends what runs in a slot, now or since a crash, and removes its folder, control groups and link."""
    cluster = load(slot.dir)
    if cluster is not None:
        # Nothing is worth a farewell; an API server would wait for the watches of nodes that are gone.
        everything = (*cluster.clients, *cluster.processes)
        for process in everything:
            processes.send(process, signal.SIGKILL)
        processes.end(everything, grace=5)
        down(slot.dir)
    shutil.rmtree(slot.dir, ignore_errors=True)
    for each in MACHINES:
        cgroups.remove(slot.cgroup(each.name))
    network.remove_link(slot)


def stay_up() -> None:
    """Keeps a cluster with real nodes up until it is interrupted."""
    # What a shell starts in the background has SIGINT ignored, and so have all that this starts: Python then sets no handler.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with suppress(KeyboardInterrupt), real_cluster() as cluster:
        print(f"real nodes are up; export KUBECONFIG={cluster.kubeconfig}", flush=True)
        while True:
            time.sleep(1)  # A signal that comes just before signal.pause() would wait for the next one.
