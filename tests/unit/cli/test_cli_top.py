"""`top` over real HTTP: rows of running jobs, live speeds through the proxy, and the status where that is not allowed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_room import Command, served

from gpujob.cli.top import Trace, sparkline
from gpujob.metrics.exposition import read_report

REPORT = "gpujob_up 1\ngpujob_steps_total 10\ngpujob_progress_ratio 0.5\ngpujob_remaining_seconds 5400\n"
JOBS = "/apis/gpujob.dev/v1alpha1/namespaces/team/gpujobs"
PODS = "/api/v1/namespaces/team/pods"
PROXY = f"{PODS}/llama-1-0-x:9466/proxy/metrics"


def gpujob_named(name: str, state: str, **status: Any) -> dict[str, Any]:
    status = {"state": state, "placement": {"pool": "mi300x"}, **status}
    return {"metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}"}, "status": status}


def pod_of(name: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"{name}-1-0-x",
            "namespace": "team",
            "labels": {"gpujob.dev/job-uid": f"uid-{name}"},
            "annotations": {"batch.kubernetes.io/job-completion-index": "0"},
        },
        "spec": {
            "nodeName": "n",
            "containers": [{"name": "train", "ports": [{"name": "telemetry", "containerPort": 9466}]}],
        },
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "containerStatuses": [{"name": "train", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}],
        },
    }


@pytest.fixture
def answers() -> dict[str, tuple[int, Any]]:
    display = {"accelerator": "8 MI300X", "progress": "40 %", "throughput": "2553", "cost": "$1.23"}
    jobs = [gpujob_named("old", "Succeeded"), gpujob_named("llama", "Running", display=display)]
    return {
        JOBS: (200, {"items": jobs}),
        PODS: (200, {"items": [pod_of("llama"), {"metadata": {"name": "odd"}, "spec": 3}]}),
        PROXY: (200, REPORT.encode()),
    }


@pytest.fixture
def kubeconfig(answers: dict[str, tuple[int, Any]], tmp_path: Path) -> Iterator[Path]:
    def answer(url: str, token: str) -> tuple[int, Any]:
        return answers.get(url.partition("?")[0], (404, {"message": "nothing here"}))

    with served(answer, tmp_path) as path:
        yield path


def cells(out: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in out.splitlines()]


def test_running_jobs_show_what_their_reporters_say_now(gpujob: Command, kubeconfig: Path) -> None:
    answer = gpujob("top", "-n", "team", "--kubeconfig", kubeconfig)
    head, *rows = cells(answer.out)
    assert (answer.code, answer.err) == (0, "")
    assert head == ["NAMESPACE", "JOB", "STATE", "POOL", "ACCEL", "PROGRESS", "SPEED", "LATELY", "ETA", "COST"]
    assert rows == [["team", "llama", "Running", "mi300x", "8 MI300X", "50 %", "2553 tok/s", "1 h 30 min", "$1.23"]]


def test_without_the_right_to_the_proxy_the_status_is_shown_and_that_is_said(
    gpujob: Command, kubeconfig: Path, answers: dict[str, tuple[int, Any]]
) -> None:
    answers[PROXY] = (403, {"message": "no"})
    answer = gpujob("top", "-n", "team", "--kubeconfig", kubeconfig)
    assert cells(answer.out)[1][5:] == ["40 %", "2553 tok/s", "-", "$1.23"]
    assert answer.err == "live speeds need the right to get pods/proxy; these are the statuses' own\n"


@pytest.mark.parametrize(
    "reply", [(502, b"bad gateway"), (200, b"<html>"), (200, b"gpujob_up 1\ngpujob_steps_total NaN")]
)
def test_a_pod_that_does_not_report_is_shown_by_its_status(
    gpujob: Command, kubeconfig: Path, answers: dict[str, tuple[int, Any]], reply: tuple[int, bytes]
) -> None:
    answers[PROXY] = reply
    answer = gpujob("top", "-n", "team", "--kubeconfig", kubeconfig)
    assert (answer.code, cells(answer.out)[1][5]) == (0, "40 %")


def test_the_report_of_another_job_is_not_shown_as_this_one_s(
    gpujob: Command, kubeconfig: Path, answers: dict[str, tuple[int, Any]]
) -> None:
    for uid, progress in (("uid-other", "40 %"), ("uid-llama", "50 %")):
        whose = f'gpujob_attempt_info{{job_uid="{uid}",attempt="1"}} 1\n'
        answers[PROXY] = (200, (REPORT + whose).encode())
        assert cells(gpujob("top", "-n", "team", "--kubeconfig", kubeconfig).out)[1][5] == progress


def test_an_odd_number_of_seconds_is_bad_input(gpujob: Command, kubeconfig: Path) -> None:
    answer = gpujob("top", "-A", "--every", "soon", "--kubeconfig", kubeconfig)
    assert (answer.code, answer.err) == (
        2, "error: --every: 'soon' is not a whole number of seconds of at least 1\n",
    )  # fmt: skip


def test_a_sparkline_goes_from_nothing_to_the_fastest() -> None:
    assert sparkline([0, 50, 100]) == "▁▅█"
    assert sparkline([0, 0]) == "▁▁"
    assert sparkline([]) == ""


def test_a_trace_keeps_the_speed_between_readings() -> None:
    trace = Trace()
    for second, steps in enumerate((10, 20, 25, 5)):
        trace.take(read_report(f"gpujob_up 1\ngpujob_steps_total {steps}\n".encode()), float(second))
    assert list(trace.speeds) == [10.0, 5.0, 0.0]
