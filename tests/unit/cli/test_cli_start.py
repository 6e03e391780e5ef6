"""Start-up is part of the interface: what a command does not need is not imported; and it ends as programs should."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from cli_room import CATALOG, MIXED, ROOT

HELLO = ROOT / "examples" / "01-hello-gpu.yaml"
CLUSTER_CLIENTS = {"kopf", "kubernetes", "aiohttp", "prometheus_client", "structlog", "urllib3", "asyncio"}
IMPORTED = """
import sys
from gpujob.cli.main import main
code = main(sys.argv[1:])
print(code, *sorted(sys.modules), file=sys.stderr)
"""


@cache
def modules(*arguments: str | Path) -> frozenset[str]:
    """The modules that a command has imported when it ends; each command runs once for all tests that ask of it."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, *map(str, arguments)], capture_output=True, text=True, check=True, timeout=60
    )
    code, *names = done.stderr.splitlines()[-1].split()
    assert code == "0"
    return frozenset(names)


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "-f", HELLO, "--cluster", MIXED),
        ("render", "-f", HELLO, "--cluster", MIXED),
        ("pools", "--cluster", MIXED),
        ("catalog",),
        ("capture", "--cluster", MIXED),
    ],
)
def test_files_need_no_client_of_a_cluster(arguments: tuple[str | Path, ...]) -> None:
    assert not modules(*arguments) & CLUSTER_CLIENTS


def test_json_needs_no_tables() -> None:
    for arguments in (("plan", "-f", HELLO), ("render", "-f", HELLO), ("pools",)):
        assert "rich" not in modules(*arguments, "--cluster", MIXED, "-o", "json")


def test_what_reads_no_job_needs_no_models() -> None:
    """The models are half of the start of a plan; a cluster without GPUPools is read without them."""
    assert "pydantic" not in modules("pools", "--cluster", MIXED, "-o", "json")
    assert "pydantic" not in modules("capture", "--cluster", MIXED)


def test_a_plan_needs_no_more_of_others_than_it_did() -> None:
    """A count of other people's modules is what the start depends on, and is nearly the same on every machine."""

    def foreign(*arguments: str | Path) -> int:
        return sum(not name.startswith("gpujob") for name in modules(*arguments, "--cluster", MIXED, "-o", "json"))

    assert foreign("plan", "-f", HELLO) <= 265
    assert foreign("pools") <= 155


def test_the_version_needs_nothing_and_help_no_models() -> None:
    assert not modules("--version") & {"argparse", "pydantic", "yaml", "rich", *CLUSTER_CLIENTS}
    assert not modules("--help") & {"pydantic", "yaml", "rich", *CLUSTER_CLIENTS}


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "gpujob.cli.main", *map(str, arguments)]


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        command("plan", "-f", HELLO, "--cluster", MIXED, "-o", "wide"),
        stdout=writing, stderr=subprocess.PIPE, text=True, check=False, timeout=60,
    )  # fmt: skip
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_an_output_that_knows_no_check_mark_gets_a_question_mark() -> None:
    done = subprocess.run(
        command("plan", "-f", HELLO, "--cluster", MIXED, "--catalog", CATALOG),
        env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"? Chosen" in done.stdout


def on_a_terminal(columns: int, *arguments: str | Path, **environment: str) -> str:
    """What a terminal of a width shows."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns), **environment}
    environment = {key: value for key, value in environment.items() if value or key != "NO_COLOR"}
    running = subprocess.Popen(command(*arguments), stdout=follower, stderr=subprocess.PIPE, env=environment)
    os.close(follower)
    shown = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # The other end is closed.
            break
        if not part:
            break
        shown += part
    os.close(leader)
    assert running.wait(60) == 0
    return shown.decode()


def test_a_terminal_gets_colours_unless_it_says_no() -> None:
    arguments = ("plan", "-f", HELLO, "--cluster", MIXED)
    assert "\x1b[" in on_a_terminal(200, *arguments, NO_COLOR="")
    assert "\x1b[" not in on_a_terminal(200, *arguments, "--no-color")
    assert "\x1b[" not in on_a_terminal(200, *arguments, NO_COLOR="1")
    assert "\x1b[" not in on_a_terminal(200, *arguments, TERM="dumb")


@pytest.mark.parametrize("columns", [40, 80, 120, 200])
def test_no_width_of_a_terminal_loses_a_column(columns: int) -> None:
    shown = on_a_terminal(columns, "plan", "-f", HELLO, "--cluster", MIXED, "--no-color")
    for word in ("POOL", "GPUS", "$/H", "OUTCOME", "WHY", "✔ Chosen", "rocm/pytorch"):
        assert word in shown
    assert "…" not in shown
