"""The reporter under real PyTorch and transformers, on the CPU: each program runs as in a pod and reads its own page."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests import torch_tree
from tests.ports import free_port
from tests.unit.runner.running import PROGRAMS, run

PATIENCE = 900.0

pytestmark = pytest.mark.skipif(bool(torch_tree.missing()), reason=torch_tree.missing() or "there")


@pytest.fixture(scope="module")
def tree() -> Path:
    """The folder with torch, transformers and accelerate; built where it is missing."""
    return torch_tree.path()


def told(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """What a program printed last, as JSON; the end of its errors where it printed none."""
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert lines, done.stderr[-3000:]
    return dict(json.loads(lines[-1]))


@pytest.fixture(scope="module")
def loops(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return told(
        run([str(PROGRAMS / "loops.py"), "compile"], tmp_path_factory.mktemp("loops"), behind=[tree], timeout=PATIENCE)
    )


EPOCH = {"steps": 10.0, "samples": 80.0}
"""Ten batches of 8."""


@pytest.mark.parametrize(
    ("loop", "added"),
    [
        ("plain", EPOCH),
        ("accumulation", {"steps": 2.0, "samples": 80.0}),
        ("two optimizers", EPOCH),
        ("scaler", {"steps": 7.0, "samples": 80.0}),
        ("scaler, fused", {"steps": 7.0, "skipped_steps": 3.0, "samples": 80.0}),
        ("fused", EPOCH),
        ("lbfgs", {"steps": 5.0, "samples": 40.0}),
        ("evaluation", EPOCH),
        ("one for each parameter", EPOCH),
        ("own optimizer", EPOCH),
        ("tokens", {"steps": 4.0, "samples": 12.0, "tokens": 192.0}),
        ("unusual tokens", {"steps": 20.0, "samples": 60.0, "tokens": 4 * 192.0 + 4 * 27}),
        ("packed sequences", {"steps": 4.0, "samples": 12.0}),
        ("workers", EPOCH),
        ("forked child", {}),
        ("compiled model", EPOCH),
        ("compiled step", EPOCH),
    ],
)
def test_a_loop(loops: dict[str, Any], loop: str, added: dict[str, float]) -> None:
    assert loops[loop] == added


def test_what_else_a_page_says(loops: dict[str, Any]) -> None:
    assert re.search(r'torch="2\.[^"]+",backend="cpu".*steps_from="optimizer",samples_from="dataloader"', loops["info"])
    assert (loops["ranks"], loops["on_device"], loops["failures"]) == (1.0, 0.0, [])
    assert loops["wait"] > 0


def test_two_ranks_share_a_port_and_the_one_left_takes_it_over(tree: Path, tmp_path: Path) -> None:
    """DDP and FSDP under torchrun, whose own process serves nothing; then the rank that serves ends."""
    launch = ["-m", "torch.distributed.run", "--nproc-per-node=2", str(PROGRAMS / "ranks.py")]
    variables = {"RANK_THAT_DIES": "1", "GPUJOB_REPORT_PORT": str(free_port())}
    said = told(run(launch, tmp_path, behind=[tree], timeout=PATIENCE, **variables))
    both, one = said["both"], said["one"]
    assert (both["gpujob_world_size"], both["gpujob_ranks_reporting"]) == (2, 2)
    for rank in (0, 1):
        # Five steps of DDP and four of FSDP, of 8 samples a rank.
        assert both[f'gpujob_steps_total{{rank="{rank}"}}'] == 9
        assert both[f'gpujob_samples_total{{rank="{rank}"}}'] == 72
    assert sum(said["served"]) == 1
    left = said["served"].index(0)
    assert one["gpujob_ranks_reporting"] == 1
    assert one[f'gpujob_steps_total{{rank="{left}"}}'] == 9
    assert not [name for name in one if f'rank="{1 - left}"' in name]


@pytest.mark.parametrize(("limit", "saved"), [("2", False), ("60", True)])
def test_torchrun_gives_its_ranks_the_time_that_the_pod_says(
    tree: Path, tmp_path: Path, limit: str, saved: bool
) -> None:
    """The variable of a pod with checkpoints (render/pod/checkpoint.py); without it torchrun kills its ranks after 30 seconds."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=1", "--standalone"]
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(tree),
        "HOME": str(tmp_path),
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": limit,
    }
    launcher = subprocess.Popen(
        [*command, str(PROGRAMS / "saves.py"), str(tmp_path), "6"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        end = time.monotonic() + PATIENCE
        while not (tmp_path / "ready").exists():
            assert time.monotonic() < end
            assert launcher.poll() is None
            time.sleep(0.2)
        launcher.terminate()
        launcher.wait(PATIENCE)
    finally:
        launcher.kill()
        launcher.wait()
    assert (tmp_path / "saved").exists() is saved


@pytest.mark.parametrize("proxy", ["", "http://127.0.0.1:9"])
def test_a_hugging_face_trainer_tells_its_progress(tree: Path, tmp_path: Path, proxy: str) -> None:
    said = told(
        run([str(PROGRAMS / "trainer.py")], tmp_path, behind=[tree], timeout=PATIENCE, http_proxy=proxy, no_proxy="")
    )
    middle, end = said["middle"], said["end"]
    assert middle['gpujob_progress_ratio{rank="0"}'] == 0.5
    assert middle['gpujob_remaining_seconds{rank="0"}'] >= 0
    assert end['gpujob_progress_ratio{rank="0"}'] == 1.0
    assert end['gpujob_steps_total{rank="0"}'] == 10
    # Two batches of four a step, one read ahead; the evaluation of 20 samples every third step is none of them.
    assert end['gpujob_samples_total{rank="0"}'] == 84
    assert end['gpujob_tokens_total{rank="0"}'] == 504
    assert end['gpujob_training_metric{rank="0",name="loss"}'] > 0
    assert end['gpujob_training_metric{rank="0",name="current_step"}'] == 10


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param(
            ["clock", "size", "memory", "folder", "server", "stop"], id="steps, batches, memory, folder, server, end"
        ),
        pytest.param(["begin", "ledger", "guard"], id="its start, and what keeps failures in"),
        pytest.param(["thread"], id="its thread"),
    ],
)
def test_a_broken_reporter_does_not_reach_the_program(tree: Path, tmp_path: Path, parts: list[str]) -> None:
    done = run([str(PROGRAMS / "broken.py"), *parts], tmp_path, behind=[tree], timeout=PATIENCE)
    assert (done.stdout, done.returncode) == ("trained\n", 0), done.stderr[-3000:]
    assert "Traceback" not in done.stderr


def test_the_same_program_runs_outside_of_a_gpujob(tree: Path, tmp_path: Path) -> None:
    done = run([str(PROGRAMS / "broken.py")], tmp_path, behind=[tree], timeout=PATIENCE, GPUJOB_REPORT_PORT="")
    assert (done.stdout, done.returncode) == ("trained\n", 0), done.stderr[-3000:]
    assert not os.path.exists(tmp_path / "report")
