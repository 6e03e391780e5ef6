"""A port for a server that cannot be started on port 0."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port of this machine that is free now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
