"""`top` over real HTTP: rows of running jobs, live speeds through the proxy, and the status where that is not allowed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cli_room import Command, served

from gpujob.cli.verbs.top import HEADERS, Trace, fitting, sparkline
from gpujob.cluster.metrics.exposition import read_report
from gpujob.status.attempts.waits import write_time

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
    assert head == ["NAMESPACE", "JOB", "STATE", "POOL", "ACCEL", "PROGRESS", "SPEED", "TREND", "ETA", "COST"]
    assert rows == [["team", "llama", "Running", "mi300x", "8 MI300X", "50 %", "2553 tok/s", "1 h 30 min", "$1.23"]]


def test_without_the_right_to_the_proxy_the_status_is_shown_and_that_is_said(
    gpujob: Command, kubeconfig: Path, answers: dict[str, tuple[int, Any]]
) -> None:
    answers[PROXY] = (403, {"kind": "Status", "reason": "Forbidden", "message": "no"})
    answer = gpujob("top", "-n", "team", "--kubeconfig", kubeconfig)
    assert cells(answer.out)[1][5:] == ["40 %", "2553 tok/s", "-", "$1.23"]
    assert answer.err == "live speeds need the right to get pods/proxy; these are the statuses' own\n"


NO_ANSWER = "does not answer through the API server"


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ((502, b"bad gateway"), f"{NO_ANSWER} (502)"),
        ((403, b"<html>a proxy between says no</html>"), f"{NO_ANSWER} (403)"),
        ((503, b'{"kind": "Status", "message": "no route to host"}'), f"{NO_ANSWER} (503: no route to host)"),
        ((200, b"<html>"), "answers what is no report (it has no gpujob_up)"),
    ],
)
def test_a_pod_that_does_not_report_is_shown_by_its_status_and_that_is_said(
    gpujob: Command, kubeconfig: Path, answers: dict[str, tuple[int, Any]], reply: tuple[int, bytes], why: str
) -> None:
    answers[PROXY] = reply
    answer = gpujob("top", "-n", "team", "--kubeconfig", kubeconfig)
    assert (answer.code, cells(answer.out)[1][5]) == (0, "40 %")
    assert answer.err == f"pod team/llama-1-0-x {why}; shown are the status's figures\n"


def test_of_several_silent_pods_the_first_is_named(
    gpujob: Command, kubeconfig: Path, answers: dict[str, tuple[int, Any]]
) -> None:
    answers[JOBS] = (200, {"items": [gpujob_named("llama", "Running"), gpujob_named("other", "Running")]})
    answers[PODS] = (200, {"items": [pod_of("llama"), pod_of("other")]})
    answers[PROXY] = (502, b"")
    answer = gpujob("top", "-n", "team", "--kubeconfig", kubeconfig)
    assert f"llama-1-0-x {NO_ANSWER} (502), and 1 more likewise; shown are" in answer.err


def test_costs_are_counted_to_now(gpujob: Command, kubeconfig: Path, answers: dict[str, tuple[int, Any]]) -> None:
    begun = write_time(datetime.now(UTC) - timedelta(minutes=30))
    priced = gpujob_named(
        "llama",
        "Running",
        startTime=begun,
        placement={"pool": "mi300x", "pricePerHour": "6.00"},
        cost={"accrued": "2.10", "earlier": "2.00"},
        display={"cost": "$2.10"},
    )
    answers[JOBS] = (200, {"items": [priced]})
    answer = gpujob("top", "-n", "team", "--kubeconfig", kubeconfig)
    assert cells(answer.out)[1][-1] in ("$5.00", "$5.01")


@pytest.mark.parametrize(
    ("installed", "namespace", "sentence"),
    [
        (404, 200, "error: the cluster has no kind GPUJob: its CRDs are not installed; helm install gpujob-operator "),
        (200, 404, "error: there is no namespace team; `kubectl get namespaces` lists them all\n"),
        (200, 403, "no job is placed, starts or runs in namespace team\n"),
        (200, 200, "no job is placed, starts or runs in namespace team\n"),
    ],
)
def test_why_nothing_is_shown(
    gpujob: Command,
    kubeconfig: Path,
    answers: dict[str, tuple[int, Any]],
    installed: int,
    namespace: int,
    sentence: str,
) -> None:
    answers[JOBS] = (404 if installed == 404 else 200, {"items": []})
    answers["/apis/gpujob.dev/v1alpha1"] = (installed, {})
    answers["/api/v1/namespaces/team"] = (namespace, {})
    answer = gpujob("top", "-n", "team", "--kubeconfig", kubeconfig)
    assert (answer.code, answer.out) == (2 if sentence.startswith("error") else 0, "")
    assert answer.err.startswith(sentence)


def test_jobs_that_wait_are_counted(gpujob: Command, kubeconfig: Path, answers: dict[str, tuple[int, Any]]) -> None:
    answers[JOBS] = (200, {"items": [gpujob_named("a", "Queued"), gpujob_named("b", "Failed")]})
    answer = gpujob("top", "-n", "team", "--kubeconfig", kubeconfig)
    assert answer.err == (
        "no job is placed, starts or runs in namespace team; 2 wait or have ended: kubectl get gpujobs -n team\n"
    )


def test_a_narrow_terminal_goes_without_columns_and_breaks_no_name() -> None:
    row = ("team", "a-job-with-a-long-name", "Running", "mi300x-standard-nd96isr-mi300x-v5-ondemand", "8 MI300X",
           "40 %", "2553 tok/s", "▁▅█▁▅█▁▅█▁▅█▁▅█▁▅█▁▅█", "12 min", "$1.23")  # fmt: skip
    assert fitting(HEADERS, [row], 200) == (list(HEADERS), [list(row)])
    headers, [shown] = fitting(HEADERS, [row], 100)
    assert headers == ["NAMESPACE", "JOB", "STATE", "PROGRESS", "SPEED", "ETA", "COST"]
    assert shown[1] == "a-job-with-a-long-name"
    assert fitting(HEADERS, [row], 20)[0] == ["JOB", "STATE", "SPEED", "COST"]
    assert fitting(HEADERS, [], 200) == (list(HEADERS), [])


def test_the_table_fits_120_columns_in_a_pipe_too_and_says_what_it_leaves_out(
    gpujob: Command, kubeconfig: Path, answers: dict[str, tuple[int, Any]]
) -> None:
    item = gpujob_named("a-training-run-whose-name-has-its-date-and-its-model-llama-70b", "Running")
    item["status"]["placement"] = {"pool": "mi300x-standard-nd96isr-mi300x-v5-ondemand"}
    item["metadata"]["namespace"] = "the-team-that-trains-large-models"
    answers[JOBS] = (200, {"items": [item]})
    answer = gpujob("top", "-n", "team", "--kubeconfig", kubeconfig)
    assert max(map(len, answer.out.splitlines())) <= 120
    assert item["metadata"]["name"] in answer.out
    assert "without POOL, ACCEL, PROGRESS, TREND and ETA, which a wider terminal shows" in answer.err


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


def test_the_first_look_tells_the_speed_since_the_first_step() -> None:
    report = (
        "gpujob_up 1\ngpujob_steps_total 101\ngpujob_tokens_total 10100\n"
        "gpujob_first_step_timestamp_seconds 1000\ngpujob_last_step_timestamp_seconds 1010\n"
    )
    trace = Trace()
    trace.take(read_report(report.encode()), 5.0)
    assert trace.rates() == {"steps": 10.0, "tokens": 1000.0}


def test_a_program_that_has_hardly_begun_has_no_speed() -> None:
    trace = Trace()
    trace.take(
        read_report(
            b"gpujob_up 1\ngpujob_steps_total 3\n"
            b"gpujob_first_step_timestamp_seconds 1000\ngpujob_last_step_timestamp_seconds 1004\n"
        ),
        5.0,
    )
    assert trace.rates() == {}
