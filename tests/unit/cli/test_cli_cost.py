"""`cost` over real HTTP: what the jobs of a cluster have cost, added up."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cli_room import Command, served

from gpujob.status.attempts.waits import write_time

JOBS = "/apis/gpujob.dev/v1alpha1/gpujobs"
NOW = datetime.now(UTC)


def ago(**time: float) -> str:
    return write_time(NOW - timedelta(**time))


def job(name: str, namespace: str = "team", profile: str | None = None, **status: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "creationTimestamp": ago(days=90)}
    return {"metadata": metadata, "spec": {"profile": profile} if profile else {}, "status": status}


def entry(pool: str, cost: str | None, **begin: float) -> dict[str, Any]:
    end = write_time(NOW - timedelta(**begin) + timedelta(hours=2))
    found = {"attempt": 1, "pool": pool, "gpus": 8, "reason": "Succeeded", "from": ago(**begin), "to": end}
    return found | ({"cost": cost} if cost else {})


FOUND = [
    job("a", profile="llama", attempts=[entry("h100", "72.00", days=3)]),
    job(
        "b",
        profile="llama",
        attempts=[entry("mi300x", "40.00", days=2), entry("h100", "72.00", days=50) | {"attempt": 2}],
    ),
    job("c", "other", attempts=[entry("l4", None, days=1)]),
    job("d", "idle"),
]


@pytest.fixture
def answers() -> dict[str, tuple[int, Any]]:
    return {
        JOBS: (200, {"items": FOUND}),
        JOBS.replace("gpujobs", "namespaces/other/gpujobs"): (200, {"items": FOUND[2:3]}),
    }


@pytest.fixture
def kubeconfig(answers: dict[str, tuple[int, Any]], tmp_path: Path) -> Iterator[Path]:
    with served(lambda url, token: answers.get(url.partition("?")[0], (404, {"message": "no"})), tmp_path) as path:
        yield path


def test_csv_by_namespace_profile_and_pool(gpujob: Command, kubeconfig: Path) -> None:
    asked = ("--by", "namespace,profile,pool", "--since", "30d", "-o", "csv")
    answer = gpujob("cost", *asked, "--kubeconfig", kubeconfig)
    assert answer.code == 0
    assert list(csv.reader(io.StringIO(answer.out))) == [
        ["namespace", "profile", "pool", "jobs", "gpuHours", "cost", "unpricedGPUHours"],
        ["team", "llama", "h100", "1", "16.00", "72.00", "0.00"],
        ["team", "llama", "mi300x", "1", "16.00", "40.00", "0.00"],
        ["other", "", "l4", "1", "16.00", "0.00", "16.00"],
    ]
    assert answer.err.splitlines() == [
        "16.00 GPU-hours have no known price and cost nothing here", "jobs that were deleted are not counted",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("since", "cost"), [("30d", "112.00"), ("60d", "184.00"), ("60h", "40.00"), ("3000m", "40.00"), ("9w", "184.00")]
)
def test_since_takes_what_lies_in_the_window(gpujob: Command, kubeconfig: Path, since: str, cost: str) -> None:
    answer = gpujob("cost", "--by", "namespace", "--since", since, "-o", "json", "--kubeconfig", kubeconfig)
    assert json.loads(answer.out)[0]["cost"] == cost


def test_a_table_for_people(gpujob: Command, kubeconfig: Path) -> None:
    answer = gpujob("cost", "--by", "pool,job", "--kubeconfig", kubeconfig)
    assert [line.split() for line in answer.out.splitlines()] == [
        ["POOL", "JOB", "JOBS", "GPU-HOURS", "COST"],
        ["h100", "a", "1", "16.00", "$72.00"],
        ["mi300x", "b", "1", "16.00", "$40.00"],
        ["l4", "c", "1", "16.00", "$0.00"],
    ]


def test_one_namespace(gpujob: Command, kubeconfig: Path) -> None:
    answer = gpujob("cost", "-n", "other", "-o", "csv", "--kubeconfig", kubeconfig)
    assert answer.out.splitlines()[1:] == ["other,1,16.00,0.00,16.00"]


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (
            ("--by", "vendor"),
            "error: --by: 'vendor' is none of namespace, profile, pool, job; write some of them with commas between",
        ),
        (
            ("--by", ","),
            "error: --by: ',' is none of namespace, profile, pool, job; write some of them with commas between",
        ),
        (("--by", "pool,pool"), "error: --by: 'pool,pool' names one twice; remove one"),
        (
            ("--since", "yesterday"),
            "error: --since: 'yesterday' is no time of at most 3650 days; write for example 90m, 12h, 30d or 4w",
        ),
        (
            ("--since", "0d"),
            "error: --since: '0d' is no time of at most 3650 days; write for example 90m, 12h, 30d or 4w",
        ),
        (
            ("--since", "99999d"),
            "error: --since: '99999d' is no time of at most 3650 days; write for example 90m, 12h, 30d or 4w",
        ),
    ],
)
def test_what_cannot_be_read_is_told(gpujob: Command, kubeconfig: Path, option: tuple[str, str], said: str) -> None:
    answer = gpujob("cost", *option, "--kubeconfig", kubeconfig)
    assert (answer.code, answer.err) == (2, f"{said}\n")
