"""What one cluster is made of, kept in CLUSTER_DIR/state.json; every command of this package begins by reading it."""

import json
import os
import shutil
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from .locks import locked
from .processes import Process, started_at

REPOSITORY = Path(__file__).resolve().parents[3]
CLUSTERS = REPOSITORY / ".cluster"
"""Where the checkout's clusters are, unless CLUSTER_DIR says otherwise."""


class ClusterError(Exception):
    """What the user must hear in one sentence; `python -m tests.e2e.cluster` prints it and ends with 1."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster as state.json keeps it."""

    kind: str
    """`binaries`, `kind` or `existing`."""
    dir: Path
    kubeconfig: Path
    bin_dir: Path | None = None
    """Where kubectl, helm and kwok are; None when those of the PATH are used."""
    server: str = ""
    address: str = "127.0.0.1"
    """Where its API server listens; real nodes need one that they can reach."""
    ports: dict[str, int] = field(default_factory=dict)
    audit_log: Path | None = None
    """One JSON line for each request of the operator's service account; only `binaries` has it."""
    processes: tuple[Process, ...] = ()
    """The cluster's own parts, in the order in which they were started."""
    clients: tuple[Process, ...] = ()
    """Processes of others that use the cluster, such as an operator under test; ended before the cluster."""

    def process(self, name: str) -> Process | None:
        """The part or client of that name, whether it runs or not."""
        return next((each for each in (*self.processes, *self.clients) if each.name == name), None)

    def tool(self, name: str) -> str:
        """The program `name` for this cluster: ours, or the one of the PATH."""
        if self.bin_dir is not None and (self.bin_dir / name).exists():
            return str(self.bin_dir / name)
        found = shutil.which(name)
        if found is None:
            raise ClusterError(f"{name} is neither in {self.bin_dir} nor on the PATH")
        return found

    def environment(self) -> dict[str, str]:
        """os.environ with KUBECONFIG and PATH for this cluster: for subprocesses of tests."""
        path = os.environ.get("PATH", "")
        return {
            **os.environ,
            "KUBECONFIG": str(self.kubeconfig),
            "PATH": path if self.bin_dir is None else f"{self.bin_dir}{os.pathsep}{path}",
        }


def default_dir() -> Path:
    """The folder of the cluster that is meant: CLUSTER_DIR, or .cluster/default in the checkout."""
    named = os.environ.get("CLUSTER_DIR")
    return Path(named).expanduser().absolute() if named else CLUSTERS / "default"


def load(cluster_dir: Path) -> Cluster | None:
    """The cluster of that folder, or None where none was brought up."""
    try:
        raw = json.loads((cluster_dir / "state.json").read_text())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        raise ClusterError(f"{cluster_dir} is not yours to read: name another folder with CLUSTER_DIR") from error
    return Cluster(
        kind=raw["kind"],
        dir=cluster_dir,
        kubeconfig=Path(raw["kubeconfig"]),
        bin_dir=Path(raw["bin_dir"]) if raw["bin_dir"] else None,
        server=raw["server"],
        address=raw.get("address", "127.0.0.1"),
        ports=raw["ports"],
        audit_log=Path(raw["audit_log"]) if raw["audit_log"] else None,
        processes=tuple(Process(**each) for each in raw["processes"]),
        clients=tuple(Process(**each) for each in raw["clients"]),
    )


def require(cluster_dir: Path | None = None) -> Cluster:
    """The cluster of that folder (default: the one that is meant); ClusterError where none was brought up."""
    folder = cluster_dir or default_dir()
    cluster = load(folder)
    if cluster is None:
        raise ClusterError(f"no cluster in {folder}: bring one up with `make cluster-up`")
    return cluster


def save(cluster: Cluster) -> None:
    """Writes state.json in one step, readable by its owner only."""
    beside = cluster.dir / "state.json.new"
    descriptor = os.open(beside, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(asdict(cluster), file, indent=2, default=str)
    beside.replace(cluster.dir / "state.json")


def claim(cluster_dir: Path) -> None:
    """Takes a new or empty folder for a cluster; refuses one with other contents, because `down` removes it."""
    try:
        cluster_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        cluster_dir.chmod(0o700)
    except OSError as error:
        raise ClusterError(
            f"{cluster_dir} cannot hold a cluster ({error.strerror}): name a folder with CLUSTER_DIR"
        ) from error
    foreign = {each.name for each in cluster_dir.iterdir()} - {"up.lock", "state.lock", "state.json.new"}
    if foreign and not (cluster_dir / "state.json").exists():
        raise ClusterError(f"{cluster_dir} holds files that are not a cluster's: name another folder with CLUSTER_DIR")


def record(cluster_dir: Path, process: Process) -> Cluster:
    """Notes a part of the cluster that was (re)started, in place of the former one of that name."""
    with locked(cluster_dir / "state.lock"):
        cluster = require(cluster_dir)
        names = [each.name for each in cluster.processes]
        kept = list(cluster.processes)
        if process.name in names:
            kept[names.index(process.name)] = process
        else:
            kept.append(process)
        cluster = replace(cluster, processes=tuple(kept))
        save(cluster)
    return cluster


def register_client(cluster_dir: Path, name: str, pid: int) -> None:
    """Notes a process that uses the cluster: `down` ends it first, for an API server with open watches ends slowly."""
    started = started_at(pid)
    if started is None:
        raise ClusterError(f"{name}: no process {pid} runs")
    with locked(cluster_dir / "state.lock"):
        cluster = require(cluster_dir)
        others = tuple(each for each in cluster.clients if each.alive and each.pid != pid)
        save(replace(cluster, clients=(Process(name, pid, started), *others)))
