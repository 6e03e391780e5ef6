"""The garbage collector and kinds that are new to a cluster: it looks for new kinds every 30 seconds only.

Until it knows the kind of an owner, it tries that owner's children ever later (5 ms, doubled each time), so that children
whose owner was deleted in the first half minute of its kind stay for up to 41 seconds.
"""

import json
import subprocess
from collections.abc import Mapping
from typing import Any

from .control_plane import restart_component
from .eventually import eventually
from .state import Cluster, ClusterError


def look_for_kinds(cluster: Cluster) -> None:
    """Makes it know the kinds of now, where the tests may restart its program; elsewhere it takes its time."""
    if cluster.kind == "binaries":
        restart_component(cluster.dir, "kube-controller-manager")


def until_collected(cluster: Cluster, owner: Mapping[str, Any]) -> None:
    """Makes an object of the new kind in the default namespace, deletes it, and waits until what it owned is gone."""
    made = _kubectl(cluster, "create", "-f-", body={**owner, "metadata": {"generateName": "collected-"}})
    reference = {key: made[key] for key in ("apiVersion", "kind")} | {
        key: made["metadata"][key] for key in ("name", "uid")
    }
    head = {"generateName": "collected-", "ownerReferences": [reference]}
    child = _kubectl(cluster, "create", "-f-", body={"apiVersion": "v1", "kind": "ConfigMap", "metadata": head})
    _kubectl(cluster, "delete", "-f-", "--wait=false", body=made)
    name = child["metadata"]["name"]
    eventually(
        lambda: not _kubectl(cluster, "get", "configmap", name, "--ignore-not-found"),
        90,
        what=f"garbage collector that collects what a {made['kind']} owned",
        every=0.1,
    )


def _kubectl(cluster: Cluster, verb: str, *words: str, body: Mapping[str, Any] | None = None) -> Any:
    """The object that kubectl gives in the default namespace, None where it gives none."""
    output = ["--output=name"] if verb == "delete" else ["--output=json"]
    command = [cluster.tool("kubectl"), verb, *words, "--namespace=default", *output]
    text = None if body is None else json.dumps(body)
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, check=False, env=cluster.environment(), timeout=60
    )
    if done.returncode:
        raise ClusterError(f"`kubectl {verb}`: {done.stderr.strip()}")
    return json.loads(done.stdout) if verb != "delete" and done.stdout.strip() else None
