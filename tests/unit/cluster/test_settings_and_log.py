"""Durations up to a year, and one form for each line of the log."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from gpujob.cluster.app.settings import YEAR, read_settings
from gpujob.values.errors import BadInput


@pytest.mark.parametrize("name", ["HOLD", "PROVISION", "UNBOUND"])
def test_a_duration_is_no_port(name: str) -> None:
    for seconds in (0, 65535, 65536, 259200, YEAR):
        settings = read_settings({f"GPUJOB_{name}_SECONDS": str(seconds)})
        assert getattr(settings, f"{name.lower()}_seconds") == seconds
    for text in (str(YEAR + 1), "-1", "1e6", "9" * 5000):
        with pytest.raises(BadInput, match=rf"^GPUJOB_{name}_SECONDS: .* is not a whole number from 0 to 31536000$"):
            read_settings({f"GPUJOB_{name}_SECONDS": text})


def test_a_port_is_still_one() -> None:
    with pytest.raises(BadInput, match=r"^GPUJOB_HEALTH_PORT: '65536' is not a whole number from 0 to 65535$"):
        read_settings({"GPUJOB_HEALTH_PORT": "65536"})


SAYS = """
import logging, structlog
from gpujob.cluster.__main__ import _log_as
from gpujob.cluster.app.settings import Settings
_log_as(Settings())
structlog.get_logger("ours").warning("a", kind="nodes")
logging.getLogger("aiohttp.server").error("b %s", 7)
logging.getLogger("kopf.activities").warning("c")
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("asyncio").exception("d")
    structlog.get_logger("ours").exception("e")
"""


def test_the_loggers_of_the_standard_library_write_the_same_json() -> None:
    done = subprocess.run([sys.executable, "-c", SAYS], capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(line["event"], line["level"]) for line in lines] == [
        ("a", "warning"), ("b 7", "error"), ("c", "warning"), ("d", "error"), ("e", "error"),
    ]  # fmt: skip
    assert all(line["timestamp"].endswith("Z") for line in lines)
    assert [line.get("logger") for line in lines[1:4]] == ["aiohttp.server", "kopf.activities", "asyncio"]
    assert all("ZeroDivisionError" in line["exception"] for line in lines[3:])
