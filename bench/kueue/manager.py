"""Kueue's manager as a process: the objects of its `config/default`, its own configuration, its own rights, its own certificates.

Only addresses differ from an installation: the manager listens on ports of this machine, and the Service of its webhooks
is a name of this machine, since no node runs its Deployment. Its API server for lists of waiting jobs is not served.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

import yaml

from bench.operator_cpu import cpu_seconds
from tests.e2e.api_server import ApiServer, Refused
from tests.e2e.cluster import Cluster, eventually, register_client
from tests.e2e.cluster.binaries import build, cache
from tests.e2e.cluster.kwok import free_ports
from tests.e2e.cluster.probe import answers
from tests.e2e.cluster.processes import Process, end, start
from tests.e2e.cluster.toolchain import go_for
from tests.e2e.operator_process import operator_kubeconfig

Object = dict[str, Any]
MODULE: Final = Path(__file__).resolve().parent
NAME: Final = "sigs.k8s.io/kueue"
NAMESPACE: Final = "kueue-system"
QUEUE: Final = "bench"
"""The ClusterQueue of queues.yaml, and the LocalQueue in each namespace."""
WEBHOOKS: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
LOCAL_QUEUES: Final = "/apis/kueue.x-k8s.io/v1beta2/namespaces/{}/localqueues"


class Kueue:
    """One manager; `start` and `stop` leave Jobs alone where it does not run."""

    def __init__(self, cluster: Cluster, api: ApiServer) -> None:
        self._cluster, self._api = cluster, api
        self._program = build((f"{NAME}/cmd/kueue",), MODULE) / "kueue"
        self._folder = cluster.dir / "kueue"
        self._ports = free_ports(("webhook", "health", "metrics"))
        self._objects = self._shipped()
        self._process: Process | None = None
        self.log = cluster.dir / "logs" / "kueue.log"

    def start(self) -> None:
        """Installs it and starts it; until it answers and its queue is there."""
        certificates = self._folder / "certificates"
        certificates.mkdir(parents=True, exist_ok=True)
        self._apply(self._objects)
        config = self._folder / "config.yaml"
        config.write_text(yaml.safe_dump(self._configuration(certificates)))
        kubeconfig = operator_kubeconfig(
            self._api, self._folder / "kubeconfig", account="kueue-controller-manager", namespace=NAMESPACE
        )
        command = [self._program, f"--config={config}", "--zap-log-level=2", "--feature-gates=VisibilityOnDemand=false"]
        self._process = start("kueue", command, log=self.log, env=os.environ | {"KUBECONFIG": str(kubeconfig)})
        register_client(self._cluster.dir, "kueue", self._process.pid)
        eventually(lambda: self._mounted(certificates), 60, what=f"Kueue's certificates; its log: {self.log}")
        health = f"http://127.0.0.1:{self._ports['health']}/readyz"
        eventually(lambda: answers(health), 60, what=f"Kueue that is ready; its log: {self.log}")
        queues = list(yaml.safe_load_all((MODULE / "queues.yaml").read_text()))
        eventually(lambda: self._apply(queues, check=False), 60, what=f"Kueue's queue; its log: {self.log}")

    def stop(self) -> None:
        """Ends it, and takes its webhooks away: they would refuse each Job without it."""
        for kind in WEBHOOKS:
            self._api.kubectl(
                "delete", kind, f"kueue-{kind.removesuffix('WebhookConfiguration').lower()}-webhook-configuration"
            )
        if self._process is not None:
            end([self._process], grace=15)

    def queue(self, namespace: str) -> None:
        """The LocalQueue of a namespace, ready for Jobs."""
        body = {
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue",
            "metadata": {"name": QUEUE}, "spec": {"clusterQueue": QUEUE},
        }  # fmt: skip
        path = LOCAL_QUEUES.format(namespace)
        self._api.create(path, body)

        def active() -> bool:
            conditions = self._api.get(path, QUEUE).get("status", {}).get("conditions", [])
            return any(each["type"] == "Active" and each["status"] == "True" for each in conditions)

        eventually(active, 60, what=f"an active queue; Kueue's log: {self.log}")

    def cpu_seconds(self) -> float:
        """CPU time that it has used."""
        assert self._process is not None
        return cpu_seconds(self._process.pid)

    def _shipped(self) -> list[Object]:
        """The objects of `config/default` but those that pods serve, with webhooks at a port of this machine."""
        go = [go_for(MODULE, cache()), "list", "-m", "-f", "{{.Dir}}", NAME]
        source = subprocess.run(go, cwd=MODULE, capture_output=True, text=True, check=True).stdout.strip()
        made = self._api.kubectl("kustomize", f"{source}/config/default")
        assert made.returncode == 0, made.stderr
        found = []
        for each in yaml.safe_load_all(made.stdout):
            if each["kind"] in ("Deployment", "APIService"):
                continue
            if each["kind"] == "Service":
                each["spec"] = {"type": "ExternalName", "externalName": "localhost"}
            conversion = each.get("spec", {}).get("conversion", {})
            for hook in (*each.get("webhooks", ()), *([conversion["webhook"]] if "webhook" in conversion else ())):
                hook["clientConfig"]["service"]["port"] = self._ports["webhook"]
            found.append(each)
        return found

    def _configuration(self, certificates: Path) -> Object:
        """Its configuration as shipped, with addresses of this machine."""
        shipped = next(each for each in self._objects if each["kind"] == "ConfigMap")
        config: Object = yaml.safe_load(shipped["data"]["controller_manager_config.yaml"])
        config["health"]["healthProbeBindAddress"] = f"127.0.0.1:{self._ports['health']}"
        config["metrics"]["bindAddress"] = f"127.0.0.1:{self._ports['metrics']}"
        config["webhook"] |= {"port": self._ports["webhook"], "certDir": str(certificates)}
        config["leaderElection"]["resourceNamespace"] = NAMESPACE
        return config

    def _apply(self, objects: list[Object], check: bool = True) -> bool:
        listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        done = self._api.kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", stdin=listed)
        assert not check or done.returncode == 0, done.stderr
        return done.returncode == 0

    def _mounted(self, certificates: Path) -> bool:
        """Whether the Secret that it fills is in its folder, as a kubelet puts it there."""
        try:
            data = self._api.get(f"/api/v1/namespaces/{NAMESPACE}/secrets", "kueue-webhook-server-cert").get("data", {})
        except Refused:
            return False
        for name, content in data.items():
            (certificates / name).write_bytes(base64.b64decode(content))
        return "tls.crt" in data
