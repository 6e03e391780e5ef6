"""`python -m demo up|down`: plan a job without a cluster, then place eight on a real control plane, step by step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.e2e.cluster import Cluster, down, eventually, look_for_kinds, register_client, up
from tests.e2e.cluster.nodes import default_fleet, node_list, simulated_nodes

ROOT = Path(__file__).parent.parent
JOBS = ROOT / "demo" / "jobs"
NAMESPACE = "gpujob-system"
OPERATOR = "gpujob-operator"

EXPECTED = {
    "hello": {"Running", "Succeeded"},
    "big-memory": {"Running"},
    "fp8": {"Running"},
    "two-nodes": {"Running", "Succeeded"},
    "must-wait": {"Queued"},
    "impossible": {"Impossible"},
    "plan-only": {"Suspended"},
}
"""The states that each job may be in when the tables are shown; anything else ends the demo with an error."""


def demo_dir() -> Path:
    """The folder of the demo's cluster."""
    return Path(os.environ.get("CLUSTER_DIR") or ROOT / ".cluster" / "demo")


def main(arguments: list[str]) -> int:
    """Exit code 0 when every job got where it should."""
    if arguments == ["down"]:
        ended = down(demo_dir())
        print(f"the demo's operator and cluster are gone, {demo_dir()} too" if ended else f"no demo in {demo_dir()}")
        return 0
    if arguments != ["up"]:
        print("usage: python -m demo up|down", file=sys.stderr)
        return 2
    began = float(os.environ.get("DEMO_BEGAN") or time.time())  # `make demo` installs first, and one waits for that too
    plan_without_a_cluster()
    cluster = start_cluster()
    install_chart(cluster)
    start_operator(cluster)
    submit_jobs(cluster)
    show(cluster)
    say(f"Done in {time.time() - began:.0f} s. Look further:")
    look_further(cluster)
    return 0


def plan_without_a_cluster() -> None:
    """The planner alone, on a captured cluster: the same code that the operator runs."""
    say("1. Where would a job go? The plan needs no cluster, only a description of one.")
    gpujob = str(Path(sys.executable).parent / "kubectl-gpujob")
    run([gpujob, "plan", "-f", "examples/01-hello-gpu.yaml", "--cluster", "examples/clusters/mixed.yaml"])


def start_cluster() -> Cluster:
    """A real control plane; KWOK simulates the nodes and their kubelets."""
    say("2. A real Kubernetes control plane (API server, scheduler, controllers) with simulated AMD and NVIDIA nodes.")
    cluster = up(demo_dir())
    nodes = json.dumps(node_list(priced(simulated_nodes(default_fleet()))))
    kubectl(cluster, "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=nodes, quiet=True)
    kubectl(cluster, "get", "nodes", "-L", "node.kubernetes.io/instance-type")
    return cluster


def priced(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The nodes, those with MI210 with the price that they have in the plan of the first step."""
    for node in nodes:
        if node["metadata"]["name"].startswith("mi210-"):
            node["metadata"]["annotations"] |= {"gpujob.dev/price-per-gpu-hour": "0.45"}
    return nodes


def install_chart(cluster: Cluster) -> None:
    """CRDs, roles and the admission policy as a cluster admin installs them."""
    say(
        "3. Install: CRDs, roles, admission policy. On simulated nodes a Deployment would prove nothing, so the operator"
    )
    say("   itself runs here as a process under the chart's ServiceAccount.", blank=False)
    helm = [str(cluster.tool("helm")), "upgrade", "--install", OPERATOR, "charts/gpujob-operator"]
    run([*helm, "--namespace", NAMESPACE, "--create-namespace", "--set", "replicaCount=0"], cluster, quiet=True)
    # Else the pods of a job that is deleted in the first half minute would hold their nodes for a while.
    look_for_kinds(cluster)


def start_operator(cluster: Cluster) -> None:
    """The operator with the rights that the chart gives it, and no others."""
    token = output(cluster, "create", "token", OPERATOR, "--namespace", NAMESPACE, "--duration", "24h").strip()
    kubeconfig = operator_kubeconfig(cluster, token)
    environment = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "GPUJOB_NAMESPACE": NAMESPACE,
        "GPUJOB_METRICS_PORT": "0",
        "GPUJOB_HEALTH_PORT": "0",
    }
    log = (demo_dir() / "logs" / "operator.log").open("ab")
    command = [sys.executable, "-m", "gpujob.cluster"]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True)
    register_client(demo_dir(), "operator", process.pid)
    eventually(
        lambda: "gpupools" if output(cluster, "get", "gpupools", "-o", "name").strip() else None,
        timeout=30,
        what="the operator to publish the pools that it found",
    )
    say("   The pools that it found:")
    kubectl(cluster, "get", "gpupools")


def operator_kubeconfig(cluster: Cluster, token: str) -> Path:
    """A kubeconfig like the cluster's own, with the operator's token."""
    config = json.loads(output(cluster, "config", "view", "--raw", "--flatten", "-o", "json"))
    for user in config["users"]:
        user["user"] = {"token": token}
    file = demo_dir() / "operator.kubeconfig"
    file.touch(mode=0o600)
    file.write_text(json.dumps(config))
    return file


def submit_jobs(cluster: Cluster) -> None:
    """One manifest for each situation; none names a vendor."""
    say("4. GPUJobs. None of the manifests in demo/jobs names a vendor:")
    for file in sorted(JOBS.glob("*.yaml")):
        print("   " + file.read_text().splitlines()[0].removeprefix("# "))
        kubectl(cluster, "apply", "-f", str(file.relative_to(ROOT)), quiet=True)
        # One after the other: jobs of the same second would be placed in the order of their uids.
        name = file.stem.partition("-")[2]
        eventually(lambda name=name: state(cluster, name), timeout=30, what=f"a status of {name}")
    eventually(lambda: all_as_expected(cluster), timeout=60, what="every job to reach its state")


def state(cluster: Cluster, name: str) -> str:
    """The state of a job, empty before its first status."""
    return output(cluster, "get", "gpujob", name, "-o", "jsonpath={.status.state}").strip()


def all_as_expected(cluster: Cluster) -> bool:
    """Whether every job is where it should be."""
    return all(state(cluster, name) in states for name, states in EXPECTED.items())


def show(cluster: Cluster) -> None:
    """The tables that a user reads."""
    kubectl(cluster, "get", "gpujobs", "-o", "wide")
    kubectl(cluster, "get", "pods", "-o", "custom-columns=POD:.metadata.name,NODE:.spec.nodeName,STATUS:.status.phase")
    say("Why does one wait, and why is one impossible?")
    for name in ("must-wait", "impossible"):
        path = '{.metadata.name}: {.status.conditions[?(@.type=="Placed")].message}{"\\n"}'
        kubectl(cluster, "get", "gpujob", name, "-o", f"jsonpath={path}")


def look_further(cluster: Cluster) -> None:
    """What to type next."""
    where = f"CLUSTER_DIR={demo_dir()} " if "CLUSTER_DIR" in os.environ else "CLUSTER_DIR=.cluster/demo "
    print(f'  eval "$({where}.venv/bin/python -m tests.e2e.cluster env)"')
    print('  export PATH="$PWD/.venv/bin:$PATH"           # kubectl finds its plugin kubectl-gpujob there')
    print("  kubectl describe gpujob two-nodes            # conditions, events")
    print("  kubectl get gpujobs -w                       # must-wait starts when two-nodes ends")
    print("  kubectl gpujob pools                         # the fleet with prices and warnings")
    print("  kubectl gpujob plan -f demo/jobs/3-fp8.yaml -o wide")
    print("  kubectl gpujob explain must-wait             # nodes are simulated: there are no logs to read")
    print(
        "  kubectl gpujob doctor                        # what is wrong; it sees no operator: that runs beside the cluster"
    )
    print("  make demo-down                               # ends everything, leaves nothing")


def kubectl(cluster: Cluster, *arguments: str, stdin: str | None = None, quiet: bool = False) -> None:
    """Runs kubectl and shows what was typed."""
    run([str(cluster.tool("kubectl")), *arguments], cluster, stdin=stdin, quiet=quiet)


def output(cluster: Cluster, *arguments: str) -> str:
    """What kubectl prints; empty when it fails."""
    command = [str(cluster.tool("kubectl")), *arguments]
    return subprocess.run(command, env=cluster.environment(), capture_output=True, text=True, check=False).stdout


def run(command: list[str], cluster: Cluster | None = None, *, stdin: str | None = None, quiet: bool = False) -> None:
    """Runs a command after printing it; its own output is kept back when quiet, unless it fails."""
    environment = cluster.environment() if cluster else dict(os.environ)
    if not quiet:
        print("$ " + " ".join([Path(command[0]).name, *command[1:]]), flush=True)
    done = subprocess.run(command, cwd=ROOT, env=environment, input=stdin, text=True, capture_output=quiet, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed: {done.stderr or ''}")


def say(text: str, *, blank: bool = True) -> None:
    """One line for the reader."""
    print(f"\n{text}" if blank else text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
