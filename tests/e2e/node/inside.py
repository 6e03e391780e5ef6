"""The first process of a node, in its own namespaces: sets the node up, starts its programs and collects what ends.

Called by machine as `python -m tests.e2e.node.inside <plan.json>`. When it ends, the kernel ends every process of the
node, the containers' too, and takes apart its mounts and its network.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.e2e.cluster import eventually
from tests.e2e.node import devices

_PRIVATE = ("/var/lib/kubelet", "/var/lib/cni", "/var/log/pods", "/var/log/containers")
_SYSCTLS = {
    "net/ipv4/ip_forward": "1",
    # Without it a pod's own service does not answer it, for both are behind one bridge.
    "net/bridge/bridge-nf-call-iptables": "1",
}
CONTAINERD = Path("/run/containerd/containerd.sock")


def main(plan: dict[str, Any]) -> None:
    """Sets up and stays."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    folder = Path(plan["folder"])
    _mount(folder, plan["vendor"])
    _connect(plan)
    # Its shim is found beside it.
    os.environ["PATH"] = f"{plan['runtime']}:{os.environ['PATH']}"
    _start(plan, "containerd", ["containerd", f"--config={folder}/containerd.toml"])
    eventually(CONTAINERD.exists, 30, what="containerd")
    for name, command in plan["programs"].items():
        _start(plan, name, command)
    while True:
        _collect()


def _mount(folder: Path, vendor: str) -> None:
    for place in _PRIVATE:
        own = folder / place.strip("/").replace("/", "-")
        own.mkdir(parents=True)
        Path(place).mkdir(parents=True, exist_ok=True)
        _run("mount", "--bind", str(own), place)
    _run("mount", "-t", "tmpfs", "-o", "mode=755", "run", "/run")
    # The nodes are made elsewhere first: once /dev is covered, mount itself misses /dev/null.
    staged = Path("/run/dev")
    staged.mkdir()
    _run("mount", "-t", "tmpfs", "-o", "mode=755,dev", "dev", str(staged))
    devices.populate(staged, vendor)
    for name, kind, options in (
        ("pts", "devpts", "newinstance,ptmxmode=0666,mode=620,gid=5"),
        ("shm", "tmpfs", "mode=1777"),
    ):
        (staged / name).mkdir()
        _run("mount", "-t", kind, "-o", options, name, str(staged / name))
    _run("mount", "--move", str(staged), "/dev")


def _connect(plan: dict[str, Any]) -> None:
    eventually(lambda: Path("/proc/net/dev").read_text().count("eth0:"), 20, what="a link to the switch")
    for words in (
        ("link", "set", "lo", "up"),
        ("address", "add", f"{plan['address']}/24", "dev", "eth0"),
        ("link", "set", "eth0", "up"),
        ("route", "add", "default", "via", plan["gateway"]),
        *(("route", "add", pods, "via", address) for pods, address in plan["others"].items()),
    ):
        _run("ip", *words)
    for name, value in _SYSCTLS.items():
        if Path("/proc/sys", name).exists():
            Path("/proc/sys", name).write_text(value)


def _start(plan: dict[str, Any], name: str, command: list[str]) -> None:
    with Path(plan["logs"], f"{plan['name']}-{name}.log").open("ab") as log:
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


def _collect() -> None:
    """Collects one process that ended: containers' shims are handed to the first process of the namespace."""
    try:
        os.wait()
    except ChildProcessError:
        time.sleep(1)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
