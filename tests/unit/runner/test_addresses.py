"""Where a reporter and the operator's endpoints listen: on IPv4 alone, on IPv6 alone, and on both.

Network namespaces of their own have these stacks, each with a loopback device alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
STACKS = {
    "both": "true",
    "IPv6 alone": "ip address delete 127.0.0.1/8 dev lo",
    "IPv4 alone": "ip address delete ::1/128 dev lo",
}
"""What leaves a namespace with these addresses of loopback."""
REACHED = {"both": ["127.0.0.1", "::1"], "IPv6 alone": ["::1"], "IPv4 alone": ["127.0.0.1"]}

REPORTER = """
import sys
sys.path[:0] = sys.argv[1:3]
from gpujob_runner.report.serving.listener import Answer, Listener
from gpujob_runner.report.settings import read
settings = read({"GPUJOB_REPORT_PORT": "0", **({"POD_IP": sys.argv[3]} if sys.argv[3] else {})})
server = Listener(settings.address, settings.port, ("GET",), lambda request: Answer(200, "here"), "test")
server.start()
"""
OPERATOR = """
import asyncio, socket, sys, threading
sys.path[:0] = sys.argv[1:3]
from prometheus_client import CollectorRegistry
from gpujob.cluster.app.http_server import Endpoints
class Server: port = 9464
server, loop = Server(), asyncio.new_event_loop()
endpoints = Endpoints(lambda: [], lambda: [], CollectorRegistry)
loop.run_until_complete(endpoints.start(sys.argv[3], 8080, 9464))
threading.Thread(target=loop.run_forever, daemon=True).start()
"""
ASK = """
import urllib.request
def asked(host, port):
    try:
        with urllib.request.urlopen(f"http://{'[%s]' % host if ':' in host else host}:{port}/metrics", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False
print(*[host for host in ("127.0.0.1", "::1") if asked(host, server.port)])
import os; os._exit(0)
"""


def reached(program: str, stack: str, address: str = "") -> list[str]:
    """The addresses of loopback at which a program answers that listens at this address, in a network of this stack."""
    inside = f'ip link set lo up && {STACKS[stack]} && exec "$@"'
    command = ["unshare", "--map-root-user", "--net", "--", "sh", "-ec", inside, "sh"]
    python = [sys.executable, "-c", program + ASK, str(ROOT), str(ROOT / "operator"), address]
    environment = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
    done = subprocess.run([*command, *python], capture_output=True, text=True, check=False, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def missing() -> str:
    """What this machine lacks for a network of a test's own; empty without a lack."""
    if lacks := [name for name in ("unshare", "ip") if shutil.which(name) is None]:
        return f"{' and '.join(lacks)} missing on PATH (util-linux, iproute2)"
    made = subprocess.run(["unshare", "--map-root-user", "--net", "true"], check=False, capture_output=True, text=True)
    return "" if made.returncode == 0 else f"this user can make no network namespace: {made.stderr.strip()}"


LACKS = missing()
needs_namespaces = pytest.mark.skipif(bool(LACKS), reason=LACKS or "there")


@needs_namespaces
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("program", [REPORTER, OPERATOR], ids=["a reporter without POD_IP", "the operator"])
def test_without_an_address_every_family_that_is_there_is_answered(program: str, stack: str) -> None:
    assert reached(program, stack) == REACHED[stack]


@needs_namespaces
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_the_address_of_the_pod_alone_is_listened_at(address: str) -> None:
    assert reached(REPORTER, "both", address) == [address]


@needs_namespaces
def test_a_taken_port_is_an_error_in_both_families() -> None:
    taken = """
import socket
other = socket.socket(); other.bind(("127.0.0.1", 9000)); other.listen()
"""
    program = REPORTER.replace('read({"GPUJOB_REPORT_PORT": "0"', 'read({"GPUJOB_REPORT_PORT": "9000"')
    program = taken + program.replace("server = Listener", "try:\n  server = Listener").replace(
        "server.start()", "except OSError as error:\n  print(error.errno); raise SystemExit\n"
    )
    assert reached(program, "both") == ["98"]
