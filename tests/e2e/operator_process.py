"""The operator as a process of its own, with the rights of the chart's ServiceAccount: started, stopped, paused, killed."""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
import time
from pathlib import Path

from tests.e2e.api_server import LEASE, ApiServer
from tests.e2e.cluster import Cluster, eventually, register_client
from tests.e2e.cluster.processes import Process, end, send, start

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE = "gpujob-system"
ACCOUNT = "gpujob-operator"


def operator_kubeconfig(
    api: ApiServer, path: Path, server: str = "", account: str = ACCOUNT, namespace: str = NAMESPACE
) -> Path:
    """A kubeconfig with a token of the chart's ServiceAccount; `server` stands in for the cluster's own address."""
    made = api.kubectl("create", "token", account, "--namespace", namespace, "--duration", "8h")
    assert made.returncode == 0, made.stderr
    shown = api.kubectl("config", "view", "--raw", "--flatten", "--minify", "--output=json").stdout
    config = json.loads(shown)
    config["users"] = [{"name": each["name"], "user": {"token": made.stdout.strip()}} for each in config["users"]]
    if server:
        config["clusters"] = [{"name": each["name"], "cluster": {"server": server}} for each in config["clusters"]]
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))
    return path


class OperatorProcess:
    """One operator; its name is its identity in the Lease."""

    def __init__(self, cluster: Cluster, api: ApiServer, kubeconfig: Path, name: str) -> None:
        self.name = name
        self._cluster, self._api, self._kubeconfig = cluster, api, kubeconfig
        self._process: Process | None = None
        # Nothing answers at the addresses of simulated pods; to report that would be a write for each of 300 jobs.
        self.settings = {"GPUJOB_SCRAPE_SECONDS": "60"}
        """Further variables of its environment."""
        self.module = "gpujob.cluster"
        """What runs."""
        self.may_fail_on = ""
        """The beginning of the names of jobs that a test means to fail in it."""
        self.log = cluster.dir / "logs" / f"operator-{name}.log"

    def start(self) -> OperatorProcess:
        """Starts it; `until_leading` waits until it acts."""
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("GPUJOB_")},
            "KUBECONFIG": str(self._kubeconfig),
            "GPUJOB_NAMESPACE": NAMESPACE,
            "GPUJOB_POD_NAME": self.name,
            "GPUJOB_LOG_FORMAT": "json",
            "GPUJOB_METRICS_PORT": "0",
            "GPUJOB_HEALTH_PORT": "0",
            "PYTHONPATH": str(ROOT),
            **self.settings,
        }
        command = [sys.executable, "-m", self.module]
        self._process = start(f"operator-{self.name}", command, log=self.log, env=environment)
        register_client(self._cluster.dir, self._process.name, self._process.pid)
        return self

    def brisk(self) -> OperatorProcess:
        """From its next start on it pauses for less time before it acts; gives itself."""
        self.module = "tests.e2e.brisk_operator"
        return self

    def in_haste(self) -> OperatorProcess:
        """From its next start on all its own times are shorter; gives itself."""
        self.module = "tests.e2e.hasty_operator"
        return self

    def reach(self, server: str) -> None:
        """From its next start on it reaches the API server at another address, such as a proxy's."""
        config = json.loads(self._kubeconfig.read_text())
        for each in config["clusters"]:
            each["cluster"]["server"] = server
        self._kubeconfig.write_text(json.dumps(config))

    @property
    def credential(self) -> str:
        """What the audit log calls the token of this process, which no other one has."""
        token = json.loads(self._kubeconfig.read_text())["users"][0]["user"]["token"]
        claims = token.split(".")[1]
        return f"JTI={json.loads(base64.urlsafe_b64decode(claims + '=' * (-len(claims) % 4)))['jti']}"

    @property
    def alive(self) -> bool:
        """Whether the process runs (or is paused)."""
        return self._process is not None and self._process.alive

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None
        return self._process.pid

    def until_leading(self, timeout: float = 40) -> float:
        """Waits until it holds the Lease; gives the seconds that took."""
        began = time.monotonic()
        eventually(self._holds_lease, timeout, what=f"operator {self.name} leading; its log: {self.log}")
        return time.monotonic() - began

    def stop(self) -> None:
        """Ends it as Kubernetes does: SIGTERM, and time to give the Lease back."""
        if self._process is not None:
            end([self._process], grace=15)

    def kill(self) -> None:
        """kill -9."""
        self.signal(signal.SIGKILL)
        eventually(lambda: not self.alive, 10, what="an operator that is dead")

    def signal(self, number: int) -> None:
        """Sends a signal, for example SIGSTOP and later SIGCONT."""
        if self._process is not None:
            send(self._process, number)

    def restart_after_kill(self) -> None:
        """Kills it and starts it again at once; the Lease of the dead is taken away, for elections have a test of their own."""
        self.kill()
        self.start_without_waiting_for_the_lease()

    def start_without_waiting_for_the_lease(self) -> None:
        """Starts it in place of one that was killed; until it leads."""
        self._api.delete(*LEASE.rsplit("/", 1))
        self.start().until_leading()

    def cpu_seconds(self) -> float:
        """CPU time that it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def seen(self) -> list[str]:
        """The jobs of its cache as namespace/name; only a hasty operator prints them."""
        lines = [line for line in self.log.read_text().splitlines() if '"event": "jobs seen"' in line]
        jobs: list[str] = json.loads(lines[-1])["jobs"] if lines else []
        return jobs

    def errors(self) -> list[str]:
        """What its log holds of errors."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line for line in lines if '"level": "error"' in line or "Traceback" in line]

    def _holds_lease(self) -> bool:
        if not self.alive:
            raise AssertionError(f"operator {self.name} ended; the end of its log:\n{self.log.read_text()[-2000:]}")
        lease = self._api.find(*LEASE.rsplit("/", 1))
        holder = (lease or {}).get("spec", {}).get("holderIdentity") or ""
        return bool(holder.startswith(f"{self.name}_"))
