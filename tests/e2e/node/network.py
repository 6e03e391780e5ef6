"""The wires: a switch in a network namespace of its own, this machine's link to it, and one for each node.

Nothing of this machine's own network is changed but for one link and the routes to the pods; both go with the switch.
"""

import subprocess
import time
from pathlib import Path

from tests.e2e.cluster import eventually, processes
from tests.e2e.cluster.processes import Process

from .slots import Slot

ENDS_WITH_US = ("setpriv", "--pdeathsig=KILL", "--")
"""Begins the command of a process that the kernel ends with the thread that started it, whatever ends that."""
_SWITCH = "switch"


def make_switch(slot: Slot, log: Path) -> Process:
    """Starts the process that keeps the switch, and links this machine to it."""
    remove_link(slot)
    command = [*ENDS_WITH_US, "unshare", "--net", "--", "sleep", "2147483647"]
    switch = processes.start(_SWITCH, command, log=log)
    eventually(lambda: _namespace(switch.pid) != _namespace("self"), 10, what="a network namespace of the switch")
    _inside(switch.pid, "link", "add", _SWITCH, "type", "bridge")
    _inside(switch.pid, "link", "set", _SWITCH, "up")
    _ip("link", "add", slot.interface, "type", "veth", "peer", "name", "host", "netns", str(switch.pid))
    _inside(switch.pid, "link", "set", "host", "up", "master", _SWITCH)
    _ip("address", "add", f"{slot.host}/24", "dev", slot.interface)
    _ip("link", "set", slot.interface, "up")
    return switch


def plug_in(slot: Slot, switch: Process, node: int, pid: int) -> None:
    """Links the network namespace of process `pid` to the switch, as eth0, and makes its pods reachable from here."""
    port = f"port{node}"
    _inside(switch.pid, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    _inside(switch.pid, "link", "set", port, "up", "master", _SWITCH)
    _ip("route", "replace", slot.pods(node), "via", slot.address(node))


def remove_link(slot: Slot) -> None:
    """Removes what a switch leaves for the moment in which the kernel takes its namespace apart."""
    for _ in range(50):
        if not Path("/sys/class/net", slot.interface).exists():
            return
        subprocess.run(["ip", "link", "delete", slot.interface], check=False, capture_output=True)
        time.sleep(0.02)


def _namespace(pid: int | str) -> str:
    return str(Path(f"/proc/{pid}/ns/net").readlink())


def _inside(pid: int, *words: str) -> None:
    subprocess.run(["nsenter", f"--net=/proc/{pid}/ns/net", "--", "ip", *words], check=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
