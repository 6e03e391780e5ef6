"""A Kubernetes control plane as plain processes on this machine: for those who have no Docker engine.

etcd, kube-apiserver, kube-controller-manager and kube-scheduler are the real programs; only nodes are simulated. Called
by choice; the functions at the end let a test stop, pause and start single components.
"""

import signal
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

from . import audit, credentials, kwok, processes
from .binaries import build
from .eventually import eventually
from .probe import answers
from .processes import Process
from .state import Cluster, ClusterError, record, require, save

_SLOW_START = 60.0


@dataclass(frozen=True, slots=True)
class Component:
    """One process of the control plane: how it is started, and how it shows that it is ready."""

    name: str
    command: Callable[[Cluster], list[str | Path]]
    ready: Callable[[Cluster], bool]
    after: Callable[[Cluster], None] = lambda cluster: None
    """What its readiness makes possible for the components behind it."""


def _pki(cluster: Cluster) -> Path:
    return cluster.dir / "pki"


def _bin(cluster: Cluster, name: str) -> Path:
    return Path(cluster.tool(name))


def _etcd(cluster: Cluster) -> list[str | Path]:
    client, peer = (f"http://127.0.0.1:{cluster.ports[name]}" for name in ("etcd", "etcd-peer"))
    return [
        _bin(cluster, "etcd"),
        f"--data-dir={cluster.dir / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def _api_server(cluster: Cluster) -> list[str | Path]:
    pki = _pki(cluster)
    return [
        _bin(cluster, "kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{cluster.ports['etcd']}",
        f"--bind-address={cluster.address}",
        f"--advertise-address={cluster.address}",
        f"--secure-port={cluster.ports['kube-apiserver']}",
        # It refuses to name a loopback address as the endpoint of the service `kubernetes`.
        *(["--endpoint-reconciler-type=none"] if ip_address(cluster.address).is_loopback else _SOON_EVICTED),
        # Real nodes are reached by their addresses, for no DNS knows their names; a privileged pod is for tests to try.
        "--kubelet-preferred-address-types=InternalIP",
        "--allow-privileged",
        f"--cert-dir={pki}",
        f"--token-auth-file={pki / 'tokens.csv'}",
        "--authorization-mode=Node,RBAC",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={pki / 'sa.key'}",
        f"--service-account-signing-key-file={pki / 'sa.key'}",
        f"--audit-policy-file={cluster.dir / 'audit-policy.yaml'}",
        f"--audit-log-path={cluster.audit_log}",
        # Megabytes: tests read the whole log, and at 100 the API server would begin another file.
        "--audit-log-maxsize=10000",
    ]


_SOON_EVICTED = ("--default-not-ready-toleration-seconds=20", "--default-unreachable-toleration-seconds=20")
"""Pods leave a real node that does not answer 20 seconds after that is noticed, and not 300, so that tests need not wait for it."""

_SOON_NOTICED = ("--node-monitor-grace-period=24s",)
"""That is noticed after 24 seconds, and not 50: a kubelet that is late once with its Lease, which it renews every 10, is not gone."""


def _controller_manager(cluster: Cluster) -> list[str | Path]:
    pki = _pki(cluster)
    return [
        _bin(cluster, "kube-controller-manager"),
        f"--kubeconfig={pki / 'controller-manager.kubeconfig'}",
        # As kubeadm does it: each controller has its own account, so RBAC and admission see the garbage collector.
        "--use-service-account-credentials",
        f"--service-account-private-key-file={pki / 'sa.key'}",
        f"--root-ca-file={pki / 'apiserver.crt'}",
        *([] if ip_address(cluster.address).is_loopback else _SOON_NOTICED),
        *_CONTROLLER_FLAGS,
    ]


def _scheduler(cluster: Cluster) -> list[str | Path]:
    kubeconfig = _pki(cluster) / "scheduler.kubeconfig"
    return [_bin(cluster, "kube-scheduler"), f"--kubeconfig={kubeconfig}", *_CONTROLLER_FLAGS]


_CONTROLLER_FLAGS = ("--leader-elect=false", "--kube-api-qps=1000", "--kube-api-burst=2000", "--secure-port=0")


def _kwok(cluster: Cluster) -> list[str | Path]:
    kubeconfig = _pki(cluster) / "kwok.kubeconfig"
    return kwok.command(_bin(cluster, "kwok"), kubeconfig, cluster.ports["kwok"])


def _answers(cluster: Cluster, path: str) -> bool:
    """Whether the API server answers the admin with 200, with a certificate that names its address."""
    authority = _pki(cluster) / "apiserver.crt"
    if not authority.exists():
        return False
    return answers(cluster.server + path, authority=authority, token=credentials.token_of(_pki(cluster)))


def _write_kubeconfigs(cluster: Cluster) -> None:
    """The kubeconfigs hold the certificate that the API server has just made."""
    paths = {who: _pki(cluster) / f"{who}.kubeconfig" for who in credentials.USERS}
    for who, path in {**paths, credentials.ADMIN: cluster.kubeconfig}.items():
        if not path.exists():
            credentials.write_kubeconfig(
                path,
                server=cluster.server,
                authority=_pki(cluster) / "apiserver.crt",
                token=credentials.token_of(_pki(cluster), who),
                user=credentials.USERS[who][0],
            )


COMPONENTS = (
    Component("etcd", _etcd, lambda it: answers(f"http://127.0.0.1:{it.ports['etcd']}/readyz")),
    Component("kube-apiserver", _api_server, lambda it: _answers(it, "/readyz"), after=_write_kubeconfigs),
    Component("kube-scheduler", _scheduler, lambda it: True),
    Component("kwok", _kwok, lambda it: answers(f"http://127.0.0.1:{it.ports['kwok']}/readyz")),
    # Pods are refused before the controller manager has made the service account of their namespace.
    Component(
        "kube-controller-manager",
        _controller_manager,
        lambda it: _answers(it, "/api/v1/namespaces/default/serviceaccounts/default"),
    ),
)


def up(cluster_dir: Path, address: str = "127.0.0.1") -> Cluster:
    """A new control plane in `cluster_dir`, ready for pods; its API server listens on `address` of this machine."""
    bin_dir = build()
    ports = kwok.free_ports(("kube-apiserver", "etcd", "etcd-peer", "kwok"))
    cluster = Cluster(
        kind="binaries",
        dir=cluster_dir,
        kubeconfig=cluster_dir / "kubeconfig",
        bin_dir=bin_dir,
        server=f"https://{address}:{ports['kube-apiserver']}",
        address=address,
        ports=ports,
        audit_log=cluster_dir / "logs" / "audit.log",
    )
    save(cluster)
    return start_missing(cluster)


def start_missing(cluster: Cluster) -> Cluster:
    """Starts every component that does not run, on the ports and the data it had: a new cluster, or one to repair."""
    credentials.make_secrets(_pki(cluster))
    policy = cluster.dir / "audit-policy.yaml"
    if not policy.exists():
        policy.write_text(audit.policy(audit.audited_users()))
    for component in COMPONENTS:
        process = cluster.process(component.name)
        if process is None or not process.alive:
            cluster = _launch(cluster, component)
    for component in COMPONENTS:
        _wait_ready(cluster, component)
    return cluster


def _launch(cluster: Cluster, component: Component) -> Cluster:
    """Starts one component; waits for it only where the next ones need it."""
    log = cluster.dir / "logs" / f"{component.name}.log"
    began = datetime.now(UTC)
    process = processes.start(component.name, component.command(cluster), log=log)
    cluster = record(cluster.dir, process)
    if component.name in {"etcd", "kube-apiserver"}:
        _wait_ready(cluster, component)
        component.after(cluster)
    if component.name == "kube-apiserver":
        audit.note_start(cluster.dir / "logs", began, datetime.now(UTC))
    return cluster


def _wait_ready(cluster: Cluster, component: Component) -> None:
    process = cluster.process(component.name)
    assert process is not None
    log = cluster.dir / "logs" / f"{component.name}.log"
    eventually(
        lambda: kwok.alive(process, log) and component.ready(cluster),
        _SLOW_START,
        what=f"{component.name} that is ready (its log: {log})",
    )


def down(cluster: Cluster) -> None:
    """Ends the clients, then the API server, then etcd: an API server with open watches needs a minute to end."""
    servers = {"etcd", "kube-apiserver"}
    processes.end((*cluster.clients, *(each for each in cluster.processes if each.name not in servers)), grace=4)
    for name in ("kube-apiserver", "etcd"):
        process = cluster.process(name)
        processes.end([process] if process else [], grace=4)


def _component(name: str) -> Component:
    found = next((each for each in COMPONENTS if each.name == name), None)
    if found is None:
        raise ClusterError(f"no component {name}; there are {', '.join(each.name for each in COMPONENTS)}")
    return found


def _running(cluster_dir: Path, name: str) -> Process:
    process = require(cluster_dir).process(name)
    if process is None or not process.alive:
        raise ClusterError(f"{name} of the cluster in {cluster_dir} does not run")
    return process


def signal_component(cluster_dir: Path, name: str, number: int) -> None:
    """Sends a signal to one component or registered client, for example SIGSTOP and later SIGCONT."""
    processes.send(_running(cluster_dir, name), number)


def stop_component(cluster_dir: Path, name: str, *, grace: float = 0.0) -> None:
    """Ends one component; with `grace` 0 as a crash does it, else it may take that many seconds to end by itself."""
    process = _running(cluster_dir, name)
    if grace == 0:
        processes.send(process, signal.SIGKILL)
    processes.end([process], grace or 5)


def start_component(cluster_dir: Path, name: str) -> None:
    """Starts a stopped component on the port and the data that it had, and waits until it is ready."""
    component = _component(name)
    cluster = require(cluster_dir)
    process = cluster.process(name)
    if process is None or not process.alive:
        cluster = _launch(cluster, component)
    _wait_ready(cluster, component)


def restart_component(cluster_dir: Path, name: str, *, grace: float = 0.0) -> None:
    """Stops one component and starts it again."""
    stop_component(cluster_dir, name, grace=grace)
    start_component(cluster_dir, name)
