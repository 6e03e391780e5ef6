"""The workflows and project files that no test runs: what they promise of themselves holds."""

import datetime
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpujob.api.manifest import read_gpujob, read_gpupool
from gpujob.catalog.files.extending import Extending
from gpujob.catalog.files.load import load_catalog
from tests.e2e.cluster.binaries import RELEASE_MODULE, RELEASE_TOOLS, build
from tests.e2e.cluster.state import REPOSITORY

WORKFLOWS = sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v[0-9]+[.][0-9]+[.][0-9]+")


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_and_rights_are_few(path: Path) -> None:
    used = [line.partition("uses:")[2].strip() for line in path.read_text().splitlines() if "uses:" in line]
    assert used
    assert [each for each in used if not PINNED.fullmatch(each)] == []
    workflow = read(path)
    assert workflow["permissions"] == {}
    assert not {"pull_request_target", "workflow_run", "issue_comment"} & set(
        workflow[True]
    )  # YAML 1.1 reads `on` as true.
    for name, job in workflow["jobs"].items():
        # The job that makes a release's page alone may write to the repository.
        assert job["permissions"]["contents"] == ("write" if (path.stem, name) == ("release", "publish") else "read")
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout"):
                assert step["with"]["persist-credentials"] is False
            # What comes from outside reaches a shell by its environment only.
            assert "${{" not in step.get("run", "")


def test_actionlint_finds_nothing(tmp_path: Path) -> None:
    program = build(RELEASE_TOOLS, RELEASE_MODULE) / "actionlint"
    done = subprocess.run([program, *WORKFLOWS], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    # It would find something: a context that is not there.
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(WORKFLOWS[0].read_text().replace("${{ steps.image.outputs", "${{ step.image.outputs"))
    done = subprocess.run([program, wrong], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode != 0


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ("", "", ""),
        ("persist-credentials: false", "persist-credentials: true", "artipacked"),
        ("permissions: {}", "permissions: write-all", "excessive-permissions"),
        ("run: make plugin", "run: echo ${{ github.event.head_commit.message }}", "template-injection"),
        ("@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1", "@main", "unpinned-uses"),
    ],
)
def test_zizmor_finds_nothing_but_what_is_wrong(tmp_path: Path, before: str, after: str, named: str) -> None:
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    for path in WORKFLOWS:
        (folder / path.name).write_text(path.read_text().replace(before, after) if before else path.read_text())
    program = Path(sys.executable).parent / "zizmor"
    done = subprocess.run(
        [program, "--offline", "--persona=auditor", "--format=json", "--quiet", folder],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert {each["ident"] for each in json.loads(done.stdout)} == ({named} if named else set()), done.stderr
    assert (done.returncode != 0) == bool(named)


def test_what_a_workflow_runs_is_a_script_or_a_target_of_the_makefile() -> None:
    """So that a test can run it: see test_the_release_steps."""
    jobs = [job for path in WORKFLOWS for job in read(path)["jobs"].values()]
    runs = [step["run"] for job in jobs for step in job["steps"] if "run" in step]
    assert len(runs) == 6
    for each in runs:
        assert re.search(r"(?:^|\| |\()(release/steps/[a-z]+[.]sh|make [a-z-]+)\b", each), each
        for script in re.findall(r"release/steps/[a-z]+[.]sh", each):
            assert (REPOSITORY / script).stat().st_mode & 0o100


def test_every_file_that_a_release_names_is_there() -> None:
    text = (REPOSITORY / ".github" / "workflows" / "release.yml").read_text()
    (dockerfile,) = re.findall(r"file: (\S+)", text)
    assert (REPOSITORY / dockerfile).exists()


def test_security_insights_have_what_their_schema_asks_for() -> None:
    found = read(REPOSITORY / "SECURITY-INSIGHTS.yml")
    assert set(found) == {"header", "project", "repository"}
    header, project, repository = found["header"], found["project"], found["repository"]
    for day in ("last-updated", "last-reviewed"):
        datetime.date.fromisoformat(header[day])
    assert re.fullmatch(r"[1-9]+[.][0-9]+[.][0-9]+", header["schema-version"])
    assert {"name", "administrators", "repositories", "vulnerability-reporting"} <= set(project)
    assert {"reports-accepted", "bug-bounty-available"} <= set(project["vulnerability-reporting"])
    assert {"url", "status", "accepts-change-request", "accepts-automated-change-request", "core-team", "license",
            "security"} <= set(repository)  # fmt: skip
    for people in (project["administrators"], repository["core-team"]):
        assert sum(each["primary"] for each in people) == 1
    for tool in repository["security"]["tools"]:
        assert tool["type"] in {"fuzzing", "container", "secret", "SCA", "SAST", "other"}
        assert set(tool["integration"]) == {"adhoc", "ci", "release"}
    assert repository["security"]["assessments"]["self"]["comment"]


def test_the_chart_lists_its_crds_and_examples_for_artifact_hub() -> None:
    annotations = read(REPOSITORY / "charts" / "gpujob-operator" / "Chart.yaml")["annotations"]
    served = [read(path) for path in sorted((REPOSITORY / "crds").glob("*.yaml"))]
    listed = yaml.safe_load(annotations["artifacthub.io/crds"])
    assert {(each["kind"], each["name"], each["version"]) for each in listed} == {
        (crd["spec"]["names"]["kind"], crd["metadata"]["name"], version["name"])
        for crd in served
        for version in crd["spec"]["versions"]
    }
    examples = yaml.safe_load(annotations["artifacthub.io/crdsExamples"])
    read_gpujob(next(each for each in examples if each["kind"] == "GPUJob"))
    read_gpupool(next(each for each in examples if each["kind"] == "GPUPool"))
    runtime = next(each for each in examples if each["kind"] == "GPURuntime")
    (row,) = Extending(runtime).runtimes(load_catalog().runtimes)
    assert row.unreadable == ""


def test_the_package_says_what_it_is(tmp_path: Path) -> None:
    made = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(name for name in names if name.endswith("/METADATA"))).decode()
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert any(name.endswith("gpujob/py.typed") for name in names)
    for line in (
        "License-Expression: Apache-2.0",
        "Requires-Python: >=3.11",
        "Description-Content-Type: text/markdown",
    ):
        assert f"\n{line}\n" in metadata
    assert "Classifier: Typing :: Typed" in metadata
    assert metadata.count("\nClassifier: ") >= 10
