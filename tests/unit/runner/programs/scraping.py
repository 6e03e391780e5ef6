"""What the programs of these tests share: reading their own reporter."""

import os
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path


def page(port: str = "") -> dict[str, float]:
    """Samples by name with labels, as served now; the port is found in the reporter's folder."""
    noted = Path(os.environ["GPUJOB_RUN_FOLDER"], "report", "port")
    for _ in range(100):
        if port or noted.exists():
            break
        time.sleep(0.1)
    with urllib.request.urlopen(f"http://127.0.0.1:{port or noted.read_text()}/metrics", timeout=30) as answer:
        lines = [line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def page_when(told: Callable[[dict[str, float]], bool], port: str = "") -> dict[str, float]:
    """The first page that has what is waited for; the last one after a minute without."""
    end, figures = time.monotonic() + 60, {}
    while time.monotonic() < end:
        try:
            figures = page(port)
        except OSError:  # no rank serves: another one is about to
            figures = {}
        if told(figures):
            break
        time.sleep(0.1)
    return figures


def info(figures: dict[str, float]) -> str:
    """The labels of gpujob_process_info, as text."""
    return next(name for name in figures if name.startswith("gpujob_process_info"))
