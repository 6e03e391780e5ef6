"""A process in the surroundings that the chart's pod gives it: a user of no passwd entry, no home, nothing to write to.

`unshare` makes them, for root and for others: a mount namespace whose file systems are all read-only, with the service account's folder
in it, and a user namespace in which the process is user 65532.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
USER = 65532

_SCRIPT = """
set -e
mount -t tmpfs tmpfs /run
mkdir -p /run/secrets/kubernetes.io
cp -r {account} /run/secrets/kubernetes.io/serviceaccount
if ! [ /var/run -ef /run ]; then mount --bind /run /var/run; fi
cut -d' ' -f2 /proc/self/mounts | grep -v '^/proc' | while read -r at; do mount -o remount,bind,ro "$at"; done
cd /
exec unshare --user --map-user={user} --map-group={user} setpriv --no-new-privs {command}
"""


def missing() -> str:
    """What this machine lacks for such surroundings, in one sentence; empty where they can be made."""
    done = subprocess.run(_unshared("true"), capture_output=True, text=True, check=False)
    return f"mount and user namespaces are not allowed here: {done.stderr.strip()}" if done.returncode else ""


def command_line(account: Path, environment: Mapping[str, str], *arguments: str) -> list[str]:
    """The command that runs this Python with these arguments and variables, and no others, in a pod's surroundings.

    `account` is the folder of the service account: ca.crt and token.
    """
    variables = [f"{name}={value}" for name, value in environment.items()]
    command = shlex.join(
        ["env", "-i", "PYTHONDONTWRITEBYTECODE=1", f"PYTHONPATH={ROOT}", *variables, sys.executable, *arguments]
    )
    return _unshared(_SCRIPT.format(account=shlex.quote(str(account)), user=USER, command=command))


def _unshared(script: str) -> list[str]:
    return ["unshare", "--user", "--map-root-user", "--mount", "--propagation", "private", "sh", "-c", script]
