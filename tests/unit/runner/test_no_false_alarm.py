"""Twenty runs of real processes with their reporter: phases longer than the bound are no stall, and a hang is one.

Each process is read over HTTP as the operator reads it, and judged by the operator's own rule.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from gpujob.cluster.metrics.exposition import read_report
from gpujob.cluster.telemetry.ranks import read_ranks
from gpujob.lifecycle.stalls import stall_of
from gpujob.status.attempts.progress import Measured
from gpujob.status.attempts.standstill import Ranks
from gpujob.status.job.telemetry import Telemetry
from gpujob.status.records.objects import JobRecord, PodState
from gpujob.status.records.read_objects import read_job
from tests.unit.runner.running import ON_PATH, PROGRAMS
from tests.unit.runner.test_programs_without_torch import TORCH, write_tree

BOUND = 10
"""Above the six seconds within which the reporter sees a phase by itself."""
RUNS = 20
PATIENCE = 180.0

FAKE = TORCH | {
    "torch/__init__.py": "grad = True\n" + TORCH["torch/__init__.py"].replace("return True", "return grad"),
    "torch/_dynamo/__init__.py": "",
    "torch/_dynamo/convert_frame.py": "import time\ndef compile_one(seconds): time.sleep(seconds)\n",
    "torch/serialization.py": "import time\ndef save(seconds): time.sleep(seconds)\n",
}


class Run:
    """A process, and whether the operator would call it stalled."""

    def __init__(self, folder: Path, site: Path, *arguments: str, **variables: str) -> None:
        self.folder = folder
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": os.pathsep.join((str(ON_PATH), str(site))),
            "GPUJOB_REPORT_PORT": "0", "GPUJOB_RUN_FOLDER": str(folder), "POD_IP": "127.0.0.1", "GPUJOB_JOB_UID": "u",
            "GPUJOB_ATTEMPT": "1", **variables,
        }  # fmt: skip
        command = [sys.executable, str(PROGRAMS / "phases.py"), *arguments]
        output = (folder / "output").open("w")
        self.process = subprocess.Popen(command, env=environment, cwd=folder, stdout=output, stderr=output)
        self.readings, self.longest = 0, 0.0

    def judged(self) -> str:
        """The sentence of its stall; empty while it works, and where it cannot be read yet."""
        try:
            report = read_report(self._get("/metrics"))
            near = (report.still or 0.0) >= BOUND / 2
            world, ranks = read_ranks(self._get("/ranks"), POD, "u", 1) if near else (1, [])
        except OSError:  # it has not begun to train, or has just ended
            return ""
        self.readings += 1
        self.longest = max(self.longest, report.still or 0.0)
        now = datetime.now(UTC)
        measured = Measured(
            now,
            counters=report.counters,
            still=report.still,
            slowest_step=report.slowest_step,
            ranks=Ranks(tuple(ranks), world),
        )
        found = stall_of(JOB, Telemetry(measured), now)
        return found.message if found else ""

    def still(self) -> float:
        """How long it stands still, by itself; 0 while it does not serve."""
        try:
            return read_report(self._get("/metrics")).still or 0.0
        except OSError:
            return 0.0

    def ranks(self) -> str:
        """What it answers at /ranks; empty while it does not serve."""
        try:
            return self._get("/ranks").decode()
        except OSError:
            return ""

    def _get(self, path: str) -> bytes:
        port = (self.folder / "report" / "port").read_text()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return bytes(answer.read())

    @property
    def output(self) -> str:
        return (self.folder / "output").read_text()


POD = PodState("p0", "c", "n0", "Running", running=True, leaving=False)
JOB: JobRecord = read_job(
    {
        "metadata": {"name": "j", "namespace": "n", "uid": "u"},
        "spec": {"stall": {"afterSeconds": BOUND, "firstStepSeconds": BOUND}},
    }
)


@contextmanager
def runs(folder: Path, arguments: list[list[str]]) -> Iterator[list[Run]]:
    site = write_tree(folder / "site", FAKE)
    started = []
    try:
        for number, each in enumerate(arguments):
            (folder / str(number)).mkdir()
            started.append(Run(folder / str(number), site, *each))
        yield started
    finally:
        for run in started:
            run.process.kill()
            run.process.wait()


def test_twenty_runs_with_long_phases_are_no_stall_and_a_hang_is(tmp_path: Path) -> None:
    arguments = [[str(seed), str(BOUND)] for seed in range(RUNS)] + [["0", str(BOUND), "hang"]]
    with runs(tmp_path, arguments) as (*working, hanging):
        alarms: dict[int, str] = {}
        found, end = "", time.monotonic() + PATIENCE
        while time.monotonic() < end and (not found or any(run.process.poll() is None for run in working)):
            for number, run in enumerate(working):
                if (message := run.judged()) and number not in alarms:
                    alarms[number] = f"{message} | {run.output}"
            found = found or hanging.judged()
            time.sleep(0.5)
    assert [run.process.returncode for run in working] == [0] * RUNS, [run.output for run in working]
    assert all(run.readings > BOUND for run in working)
    assert alarms == {}
    assert "hangs" in hanging.output
    said = re.match(
        r"no step for (\d+) seconds after step 90; the bound is 10 seconds \(spec\.stall\.afterSeconds\)", found
    )
    # How late this process reads on a busy machine is no matter of the reporter.
    assert said is not None, found
    assert int(said[1]) >= BOUND


def test_a_process_that_was_stopped_does_not_stand_still_for_that_time(tmp_path: Path) -> None:
    """Nor one whose node has no CPU for it: its watcher wakes up late then, too."""
    stopped = 8.0
    with runs(tmp_path, [["3", "0.2", "hang"]]) as (run,):
        end = time.monotonic() + PATIENCE
        while "hangs" not in run.output or not run.still():
            assert time.monotonic() < end
            time.sleep(0.2)
        # Since the last sign of work at least that long, by its own clock.
        before, began = run.still(), time.monotonic()
        run.process.send_signal(signal.SIGSTOP)
        time.sleep(stopped)  # The pause itself.
        run.process.send_signal(signal.SIGCONT)
        # It notes the pause with its next beat: without that the difference stays.
        after, passed, end = run.still(), time.monotonic() - began, time.monotonic() + PATIENCE
        while after > before + passed - stopped + 2.0 and time.monotonic() < end:
            time.sleep(0.2)
            after, passed = run.still(), time.monotonic() - began
    assert before <= after <= before + passed - stopped + 2.0


def test_the_sentence_of_a_hang_names_the_call(tmp_path: Path) -> None:
    with runs(tmp_path, [["3", "0.2", "hang"]]) as (run,):
        end, still = time.monotonic() + PATIENCE, ""
        while time.monotonic() < end and "wait_for_the_slow_rank" not in still:
            still = run.judged()
            time.sleep(0.5)
    assert "rank 0 (pod p0 on node n0) is at step 90 in wait_for_the_slow_rank (" in still
    assert "phases.py:" in still
