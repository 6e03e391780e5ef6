"""What a machine needs for real nodes; `make node-packages` installs it on Debian and its kin."""

import os
import platform
import shutil
import sys

_PROGRAMS = {
    "runc": "runc",
    "nft": "nftables",
    "conntrack": "conntrack",
    "iptables": "iptables",
    "busybox": "busybox-static",
    "ip": "iproute2",
    "unshare": "util-linux",
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
}
CNI_PLUGINS = "/usr/lib/cni"


def missing() -> str:
    """What is lacking, in one sentence; empty where real nodes can be started."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "real nodes run on Linux on x86-64 only"
    if os.geteuid() != 0:
        return "real nodes need root: containers, network namespaces and device nodes are made"
    absent = {package for program, package in _PROGRAMS.items() if shutil.which(program) is None}
    if not os.path.exists(f"{CNI_PLUGINS}/bridge"):
        absent.add("containernetworking-plugins")
    if absent:
        return f"real nodes need the packages {', '.join(sorted(absent))}: run `make node-packages`"
    return ""
