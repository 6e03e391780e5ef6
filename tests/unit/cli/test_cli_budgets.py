"""Monthly budgets of namespaces: what plan, explain and doctor say of them without the operator's count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_room import CATALOG, MIXED, Command, manifest
from doctor_room import Doctor, of_check

KEY = "gpujob.dev/monthly-budget"
UNREADABLE = (
    f"annotation {KEY} of namespace team is {{!r}}, which is no sum of US dollars; "
    'an admin writes it as a decimal in quotes, for example "5000.00"'
)
ZERO = f"annotation {KEY} of namespace team is '0', a budget of $0.00; an admin raises it, or removes it"
CHANGE = f"kubectl annotate --overwrite namespace team {KEY}=5000.00, with the sum that is meant"


def namespace(budget: str | None, name: str = "team") -> dict[str, Any]:
    annotations = {} if budget is None else {KEY: budget}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "annotations": annotations}}


def cluster(folder: Path, *objects: dict[str, Any]) -> Path:
    path = folder / "cluster.yaml"
    path.write_text(f"{MIXED.read_text()}\n---\n{yaml.safe_dump_all(objects)}")
    return path


@pytest.mark.parametrize("verb", ["plan", "explain"])
@pytest.mark.parametrize(
    ("budget", "said"),
    [
        ("abc", f"no job starts: {UNREADABLE.format('abc')}\n"),
        ("5,000", f"no job starts: {UNREADABLE.format('5,000')}\n"),
        ("-1", f"no job starts: {UNREADABLE.format('-1')}\n"),
        ("0", f"no job starts: {ZERO}\n"),
        ("5000", "namespace team has a monthly budget of $5000.00; a plan does not count what its jobs have spent\n"),
        (None, ""),
    ],
)
def test_a_plan_says_that_the_namespace_has_a_budget(
    gpujob: Command, tmp_path: Path, verb: str, budget: str | None, said: str
) -> None:
    world = cluster(tmp_path, namespace(budget), namespace("abc", "others"))
    jobs = manifest() + manifest("second")
    answer = gpujob(verb, "-f", "-", "-n", "team", "--cluster", world, "--catalog", CATALOG, stdin=jobs)
    assert answer.code == 0
    assert answer.err == said


@pytest.mark.parametrize(
    ("reason", "despite"),
    [
        ("NamespaceBudgetExceeded", " and without its namespace's monthly budget, which still keeps it from starting"),
        ("BudgetExceeded", " and without its budget, which still keeps it from starting"),
        ("NoCapacity", ""),
    ],
)
def test_explain_says_that_a_budget_still_keeps_the_job(
    gpujob: Command, tmp_path: Path, reason: str, despite: str
) -> None:
    condition = {"type": "Placed", "status": "False", "reason": reason, "message": "it waits"}
    job = {
        "apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob",
        "metadata": {"name": "train", "namespace": "team", "uid": "u"}, "spec": {},
        "status": {"state": "Queued", "conditions": [condition]},
    }  # fmt: skip
    answer = gpujob("explain", "train", "-n", "team", "--cluster", cluster(tmp_path, job), "--catalog", CATALOG)
    first, second, third = answer.out.splitlines()[:3]
    assert first == "Queued  train: it waits"
    assert second == f"Decided again, without its own pods{despite}:"
    assert third.startswith("Placed  train: ")


def test_doctor_names_budgets_that_let_no_job_start(doctor: Doctor) -> None:
    found = doctor(namespace("abc"), namespace("0", "zero"), namespace("12.50", "good"), namespace(None, "default"))
    named = [each for each in found if each[1] == "monthly-budget"]
    assert named == [
        ("Error", "monthly-budget", "team", UNREADABLE.format("abc"), CHANGE),
        ("Warning", "monthly-budget", "zero", ZERO.replace("team", "zero"), CHANGE.replace("team", "zero")),
    ]
    own = doctor(namespace("12.50"), options=("-n", "team"), every=True)
    assert of_check(own, "monthly-budget") == [("OK", "the monthly budget of namespace team can be read")]


def test_a_capture_keeps_the_budget(gpujob: Command, tmp_path: Path) -> None:
    answer = gpujob("capture", "--cluster", cluster(tmp_path, namespace("5000")))
    kept = [each for each in yaml.safe_load_all(answer.out) if each["kind"] == "Namespace"]
    assert [each["metadata"].get("annotations") for each in kept] == [{KEY: "5000"}]
