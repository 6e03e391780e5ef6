"""Secrets of one control plane, new for each: tokens, the key of service accounts, kubeconfigs.

Used by control_plane. The API server makes its own serving certificate; every kubeconfig carries it, so that clients
check whom they talk to.
"""

import base64
import json
import os
import secrets
import shutil
import subprocess
from pathlib import Path

from .state import ClusterError

ADMIN = "admin"
USERS = {
    ADMIN: ("gpujob-admin", "system:masters"),
    "kwok": ("gpujob-kwok", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
}


def write_private(path: Path, text: str) -> None:
    """Writes a file that only its owner can read, from its first byte on."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


def make_secrets(folder: Path) -> None:
    """Makes tokens.csv and the service accounts' key pair in `folder`; what exists is kept."""
    tokens = folder / "tokens.csv"
    if not tokens.exists():
        lines = [f'{secrets.token_hex(24)},{user},{user},"{group}"' for user, group in USERS.values()]
        write_private(tokens, "\n".join(lines) + "\n")
    if not (folder / "sa.key").exists():
        _make_key(folder / "sa.key")


def _make_key(path: Path) -> None:
    if shutil.which("openssl"):
        command = ["openssl", "genrsa", "-out", str(path), "2048"]
    elif shutil.which("ssh-keygen"):
        command = ["ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-m", "PEM", "-N", "", "-f", str(path)]
    else:
        raise ClusterError("making keys needs openssl or ssh-keygen; install one of them")
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        raise ClusterError(f"no key could be made: {made.stderr.strip()}")
    path.chmod(0o600)


def token_of(folder: Path, who: str = ADMIN) -> str:
    """The bearer token of one of USERS."""
    user = USERS[who][0]
    lines = (line.split(",") for line in (folder / "tokens.csv").read_text().splitlines())
    return next(fields[0] for fields in lines if fields[1] == user)


def write_kubeconfig(path: Path, *, server: str, authority: Path, token: str, user: str) -> None:
    """A kubeconfig that stands alone: the certificate and the token are inside."""
    certificate = base64.b64encode(authority.read_bytes()).decode()
    write_private(
        path,
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [
                    {"name": "gpujob", "cluster": {"server": server, "certificate-authority-data": certificate}}
                ],
                "users": [{"name": user, "user": {"token": token}}],
                "contexts": [{"name": "gpujob", "context": {"cluster": "gpujob", "user": user}}],
                "current-context": "gpujob",
            },
            indent=2,
        ),
    )
