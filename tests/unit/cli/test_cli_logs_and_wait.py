"""`logs` and `wait` over real HTTP: which pods are read, in which order, and how a wait ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from cli_room import Command, served

from gpujob.cli.verbs import logs, wait
from gpujob.cli.verbs.wait import Wait
from gpujob.values.errors import BadInput
from gpujob.values.names import child_name

JOB = "/apis/gpujob.dev/v1alpha1/namespaces/team/gpujobs/llama"
PODS = "/api/v1/namespaces/team/pods"


def job(**status: Any) -> dict[str, Any]:
    status = {"state": "Running", "attempt": 2, "jobName": child_name("llama", "u", 2),
              "attempts": [{"attempt": 1, "to": "t", "reason": "NodeLost"}], **status}  # fmt: skip
    return {"metadata": {"name": "llama", "namespace": "team", "uid": "u"}, "status": status}


def pod(index: int, attempt: int = 2, phase: str = "Running", **more: Any) -> dict[str, Any]:
    owner = {"kind": "Job", "name": child_name("llama", "u", attempt), "uid": f"c{attempt}", "controller": True}
    running = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    return {
        "metadata": {
            "name": f"llama-{attempt}-{index}", "namespace": "team", "ownerReferences": [owner],
            "labels": {"gpujob.dev/job-uid": "u", "gpujob.dev/attempt": str(attempt)},
            "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
        },
        "spec": {"nodeName": "n", "containers": [{"name": "train"}]},
        "status": {"phase": phase, "containerStatuses": [{"name": "train", "state": running}], **more},
    }  # fmt: skip


def at(second: int, text: str, part: str = "") -> str:
    return f"2026-01-01T00:00:{second:02}{part}Z {text}\n"


class Server:
    """Answers as an API server does, and notes what was asked."""

    def __init__(self) -> None:
        self.job: Any = job()
        self.pods = [pod(1), pod(0), {"metadata": {"name": "odd"}, "spec": 3}]
        self.logs: dict[str, Any] = {
            "llama-2-0": at(1, "one") + at(3, "three"),
            "llama-2-1": "2026-01-01T01:00:02+01:00 two\n" + at(3, "four", ".5") + "2026-01-01T00:00:04Z end",
            "llama-1-0": at(1, "lost"),
        }
        self.asked: list[dict[str, list[str]]] = []
        self.looks = 0

    def answer(self, url: str, token: str) -> tuple[int, Any]:
        path, query = urlsplit(url).path, parse_qs(urlsplit(url).query)
        if path == JOB:
            self.looks += 1
            return (200, self.job) if self.job else (404, {})
        if path == PODS:
            attempt = query["labelSelector"][0].rpartition("=")[2]
            found = [
                p for p in self.pods if p["metadata"].get("labels", {}).get("gpujob.dev/attempt", attempt) == attempt
            ]
            return 200, {"items": found}
        if path.startswith(PODS):
            self.asked.append(query)
            found = self.logs[path.split("/")[-2]]
            return found if isinstance(found, tuple) else (200, found.encode())
        return 404, {}


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def kubeconfig(server: Server, tmp_path: Path) -> Iterator[Path]:
    room: AbstractContextManager[Path] = served(server.answer, tmp_path)
    with room as path:
        yield path


@pytest.fixture
def out(capfdbinary: pytest.CaptureFixture[bytes], kubeconfig: Path) -> Callable[..., tuple[int, str, str]]:
    """Runs the command; gives its exit code and what it wrote, bytes of logs included."""
    from gpujob.cli.main import main

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main([*arguments, "--kubeconfig", str(kubeconfig), "-n", "team"])
        found = capfdbinary.readouterr()
        return code, found.out.decode(), found.err.decode()

    return run


Run = Callable[..., tuple[int, str, str]]


def test_lines_of_all_pods_come_in_the_order_of_their_times_each_with_its_pod(out: Run, server: Server) -> None:
    code, text, _ = out("logs", "llama")
    assert (code, text) == (0, "[0] one\n[1] two\n[0] three\n[1] four\n[1] end\n")
    assert all(query["container"] == ["train"] and "follow" not in query for query in server.asked)


def test_one_pod_has_no_prefix(out: Run) -> None:
    assert out("logs", "llama", "--rank", "1")[1] == "two\nfour\nend\n"


def test_an_earlier_attempt_can_be_read(out: Run, server: Server) -> None:
    server.pods.append(pod(0, attempt=1, phase="Failed"))
    assert out("logs", "llama", "--attempt", "1")[1] == "lost\n"


def test_a_pod_that_only_says_that_it_is_the_jobs_is_not_read(out: Run, server: Server) -> None:
    stranger = pod(7)
    stranger["metadata"]["ownerReferences"][0]["name"] = "another-2"
    server.pods.append(stranger)
    assert "[7]" not in out("logs", "llama")[1]


def test_where_the_preflight_kept_the_program_away_its_output_is_shown(out: Run, server: Server) -> None:
    ended = {"terminated": {"exitCode": 1, "message": '{"gpujob":1,"findings":[{"reason":"ImageBroken"}],"facts":{}}'}}
    waits = {"name": "train", "state": {"waiting": {"reason": "PodInitializing"}}}
    server.pods = [pod(0, phase="Failed", initContainerStatuses=[{"name": "preflight", "state": ended}],
                       containerStatuses=[waits])]  # fmt: skip
    assert out("logs", "llama")[0] == 0
    assert server.asked[0]["container"] == ["preflight"]


def test_a_pod_without_a_log_stops_no_other(out: Run, server: Server) -> None:
    server.logs["llama-2-1"] = (400, {"message": "container is waiting to start"})
    assert out("logs", "llama") == (
        0,
        "[0] one\n[0] three\n",
        "pod llama-2-1: no log (400): container is waiting to start\n",
    )


def test_no_log_of_any_pod_is_no_success(out: Run, server: Server) -> None:
    for name in ("llama-2-0", "llama-2-1"):
        server.logs[name] = (400, {"message": "container is waiting to start"})
    code, text, error = out("logs", "llama")
    assert (code, text) == (2, "")
    assert error.splitlines()[-1] == (
        "error: GPUJob llama: none of its 2 pods has a log; `kubectl gpujob explain llama` says what it waits for"
    )
    server.pods = [pod(0)]
    assert "its pod has no log" in out("logs", "llama")[2]


def test_a_right_that_is_missing_is_said(out: Run, server: Server) -> None:
    server.logs["llama-2-0"] = (403, {"message": "no"})
    code, _, error = out("logs", "llama")
    assert (code, error) == (2, "error: this account may not read logs (403): no; ask for the right to get pods/log\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ("--attempt", "3"),
            "there are no pods of attempt 3 of GPUJob llama any more, or not yet; attempts that are over: 1",
        ),
        (
            ("--rank", "5"),
            "there are no pod 5 of attempt 2 of GPUJob llama any more, or not yet; attempts that are over: 1",
        ),
        (("--rank", "-1"), "--rank: '-1' is not a whole number of at least 0"),
        (("--attempt", "0"), "--attempt: '0' is not a whole number of at least 1"),
        (("--attempt", "x"), "--attempt: 'x' is not a whole number of at least 1"),
    ],
)
def test_what_is_not_there(out: Run, arguments: tuple[str, ...], sentence: str) -> None:
    code, _, error = out("logs", "llama", *(f"{arguments[0]}={arguments[1]}",))
    assert (code, error) == (2, f"error: {sentence}\n")


def test_a_job_that_was_not_placed_has_no_attempt(out: Run, server: Server) -> None:
    server.job = job(state="Queued", attempt=None)
    assert out("logs", "llama")[2] == (
        "error: GPUJob llama has no attempt yet (Queued); `kubectl gpujob explain llama` says why\n"
    )


def test_following_ends_with_the_pods_and_repeats_nothing(
    out: Run, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream breaks after each answer; what came after the last line is asked for, until the pods have ended."""
    monkeypatch.setattr(logs, "PAUSE", 0.01)
    server.pods = [pod(0)]
    parts = [at(1, "one"), at(1, "one") + at(2, "two"), at(2, "two") + at(3, "three")]
    before = server.answer

    def answer(url: str, token: str) -> tuple[int, Any]:
        found = before(url, token)
        if "/log?" in url and len(server.asked) >= len(parts):
            server.pods = [pod(0, phase="Succeeded")]
        return found

    class Growing(dict[str, Any]):
        def __getitem__(self, name: str) -> str:
            return parts[min(len(server.asked), len(parts)) - 1]

    server.logs = Growing()
    monkeypatch.setattr(server, "answer", answer)
    found = logs.logs_of(_cluster(answer), server.job, None, None)
    written: list[bytes] = []
    found.write = written.append
    found.follow()
    assert b"".join(written) == b"one\ntwo\nthree\n"
    assert server.asked[0]["follow"] == ["true"]
    assert "sinceTime" not in server.asked[0]
    assert server.asked[1]["sinceTime"] == ["2026-01-01T00:00:01Z"]


def test_following_waits_for_pods_and_gives_up_when_there_will_be_none(server: Server) -> None:
    server.pods = []
    found = logs.logs_of(_cluster(server.answer), server.job, None, None)

    def ends(_: float) -> None:
        server.job = job(state="Failed")

    found.sleep = ends
    with pytest.raises(BadInput, match="there are no pods of attempt 2"):
        found.follow()


def _cluster(answer: Callable[[str, str], tuple[int, Any]]) -> Any:
    """A cluster without a connection."""

    class Cluster:
        def gpujob(self, name: str, namespace: str | None) -> Any:
            return answer(JOB, "")[1]

        def listed(self, path: str, **selectors: str) -> Any:
            return answer(f"{path}?labelSelector={selectors['labelSelector']}", "")[1]

        def stream(self, path: str) -> tuple[int, Iterator[bytes]]:
            status, body = answer(path, "")
            return status, iter([body])

    return Cluster()


def condition(kind: str, message: str) -> dict[str, str]:
    return {"type": kind, "status": "x", "message": message}


@pytest.mark.parametrize(
    ("state", "kind", "code"),
    [
        ("Succeeded", "Complete", 0),
        ("Failed", "Failed", 1),
        ("Impossible", "Placed", 4),
        ("Misconfigured", "Placed", 5),
    ],
)
def test_a_wait_ends_with_the_job_and_with_what_needs_a_person(
    out: Run, server: Server, state: str, kind: str, code: int
) -> None:
    server.job = job(state=state, conditions=[condition(kind, "the reason")])
    assert out("wait", "llama") == (code, f"{state} llama: the reason\n", "")


def test_it_waits_until_the_job_runs_where_that_is_asked(out: Run, server: Server) -> None:
    server.job = job(conditions=[condition("Running", "all 2 pods run")])
    assert out("wait", "llama", "--for", "running") == (0, "Running llama: all 2 pods run\n", "")
    code, text, _ = out("wait", "llama", "--timeout", "0")
    assert (code, text) == (3, "Running llama: all 2 pods run; the time is up (--timeout)\n")


@pytest.mark.parametrize("timeout", ["soon", "-1", "nan", "1e99", "9999d"])
def test_a_time_that_is_none(out: Run, timeout: str) -> None:
    sentence = f"error: --timeout: {timeout!r} is no time of at most 3650 days; write seconds (600), or for example 90m or 12h\n"
    assert out("wait", "llama", f"--timeout={timeout}")[2] == sentence


def test_a_job_that_is_not_there_is_not_waited_for(out: Run, server: Server) -> None:
    server.job = None
    assert out("wait", "llama")[0] == 2


@pytest.mark.parametrize("verb", ["logs", "wait"])
def test_a_name_is_needed(gpujob: Command, verb: str) -> None:
    answer = gpujob(verb)
    assert (answer.code, f"{verb} needs the NAME of a job in the cluster" in answer.err) == (2, True)


def test_an_api_server_that_is_away_for_a_moment_ends_no_wait() -> None:
    answers: list[Any] = [job(state="Queued"), BadInput("away"), BadInput("away"), job(state="Succeeded")]
    slept: list[float] = []

    def look() -> Any:
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    assert Wait(look, running=False, sleep=slept.append).run()[0] == 0
    assert slept == [wait.EVERY] * 3


def test_one_that_stays_away_does() -> None:
    looks = iter([job(state="Queued")])

    def look() -> Any:
        for found in looks:
            return found
        raise BadInput("away")

    with pytest.raises(BadInput, match="away"):
        Wait(look, running=False, sleep=lambda _: None).run()
