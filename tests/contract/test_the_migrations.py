"""Coming from other systems: a table makes the manifest after of the one before, and the plan is the one that the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.e2e.api_server import ApiServer
from tests.e2e.cluster.state import REPOSITORY

Object = dict[str, Any]
PAGE: Final = (REPOSITORY / "docs" / "guides" / "migrating.md").read_text()
SECTIONS: Final = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))
SOURCES: Final = ("A plain Kubernetes Job", "Kubeflow Trainer", "SkyPilot", "Kueue")
VENDORS: Final = {"nvidia.com/gpu": "cuda", "amd.com/gpu": "rocm"}


def blocks(section: str) -> tuple[Object, Object, str]:
    """The manifest before, the one after, and what the page shows of its plan."""
    (before,) = re.findall(r"^```yaml title=\"Before: .*?\"\n(.*?)^```", SECTIONS[section], re.DOTALL | re.MULTILINE)
    (after,) = re.findall(r"^```yaml\n(.*?)^```", SECTIONS[section], re.DOTALL | re.MULTILINE)
    (plan,) = re.findall(r"^```text\n(.*?)^```", SECTIONS[section], re.DOTALL | re.MULTILINE)
    return yaml.safe_load(before), yaml.safe_load(after), plan


def rows(section: str) -> list[tuple[str, str]]:
    """Left and right side of the section's table."""
    found = re.findall(r"^\| (.*?) \| (.*?) ?\|$", SECTIONS[section], re.MULTILINE)
    return [(left, right) for left, right in found if not left.startswith("-")][1:]


def of_job(before: Object) -> Object:
    """What the table of plain Jobs, and that of Kueue's labels, makes of a Job."""
    spec, labels = before["spec"], before["metadata"].get("labels", {})
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    limits, requests = container["resources"]["limits"], container["resources"].get("requests")
    ((vendor, gpus),) = ((VENDORS[key], value) for key, value in limits.items() if key in VENDORS)
    found = {
        "images": {vendor: {"image": container["image"]}},
        "gpusPerNode": gpus,
        "nodes": spec.get("completions"),
        "retries": {"user": count, "infrastructure": count} if (count := spec.get("backoffLimit")) else None,
        "activeDeadlineSeconds": spec.get("activeDeadlineSeconds"),
        "priorityClassName": labels.get("kueue.x-k8s.io/priority-class"),
        "resources": requests,
        "volumes": pod.get("volumes"),
        **{name: container.get(name) for name in ("command", "args", "env", "volumeMounts")},
    }
    return {name: value for name, value in found.items() if value is not None}


def of_trainjob(before: Object) -> Object:
    trainer = before["spec"]["trainer"]
    ((resource, gpus),) = trainer["resourcesPerNode"]["limits"].items()
    assert trainer["numProcPerNode"] == gpus
    images = {"images": {VENDORS[resource]: {"image": trainer["image"]}}}
    return {
        **images,
        "nodes": trainer["numNodes"],
        "gpusPerNode": gpus,
        **{name: trainer[name] for name in ("command", "args", "env")},
    }


def of_task(before: Object) -> Object:
    accelerators = before["resources"]["accelerators"]
    (gpus,) = set(accelerators.values())
    assert before["workdir"] == "."
    return {
        "nodes": before["num_nodes"],
        "gpusPerNode": gpus,
        "placement": {"accelerators": {"allow": list(accelerators)}},
        "code": {"configMap": {"name": f"{before['name']}-code"}},
        "env": [{"name": name, "value": value} for name, value in before["envs"].items()],
        "command": ["sh", "-ec"],
        "args": [f"{before['setup']}\n{before['run']}"],
    }


MADE_BY: Final[dict[str, Callable[[Object], Object]]] = dict(
    zip(SOURCES, (of_job, of_trainjob, of_task, of_job), strict=True)
)
ADDED: Final = {"gpuMemory"}
"""What a manifest says instead of a model of one vendor."""


def test_the_page_has_a_section_for_each_system() -> None:
    assert list(SECTIONS) == [*SOURCES, "What a GPUJob does not have"]


@pytest.mark.parametrize("section", SOURCES)
def test_the_manifest_after_is_what_the_table_makes_of_the_one_before(section: str) -> None:
    before, after, _ = blocks(section)
    spec = {name: value for name, value in after["spec"].items() if name not in ADDED}
    made = MADE_BY[section](before)
    if "images" in made:
        # An image for each vendor, where the system before has one.
        made["images"] = {**spec["images"], **made["images"]}
    assert made == spec
    assert after["metadata"] == {"name": before.get("name") or before["metadata"]["name"]}


STRUCTURE: Final = {
    *(
        "apiVersion",
        "kind",
        "metadata",
        "name",
        "labels",
        "spec",
        "template",
        "containers",
        "value",
        "limits",
        "trainer",
    ),
    # What a Job of several pods needs, and every pod of a Job.
    *("completionMode", "restartPolicy"),
}
LEAVES: Final = {
    "nodeSelector",
    "tolerations",
    "env",
    "envs",
    "volumes",
    "volumeMounts",
    "accelerators",
    "limits",
    "requests",
    "runtimeRef",
}
"""Members that a table names whole."""


def members(value: Any) -> Iterator[str]:
    for key, each in value.items() if isinstance(value, dict) else ():
        yield key
        if key not in LEAVES:
            yield from members(each)
    for each in value if isinstance(value, list) else ():
        yield from members(each)


@pytest.mark.parametrize("section", SOURCES)
def test_the_table_has_a_row_for_each_member_of_the_manifest_before(section: str) -> None:
    before, _, _ = blocks(section)
    named = " ".join(left for each in {section, SOURCES[0]} for left, _ in rows(each))
    unnamed = {
        key for key in set(members(before)) - STRUCTURE if not re.search(rf"(?<![\w-]){re.escape(key)}(?![\w-])", named)
    }
    assert unnamed == set()


def schema(kind: str) -> Object:
    crd = yaml.safe_load((REPOSITORY / "crds" / f"gpujob.dev_{kind}.yaml").read_text())
    found: Object = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return found


def is_field(path: str, of: Object) -> bool:
    for part in path.split("."):
        of = of.get("items", of).get("properties", {}).get(part)
        if of is None:
            return False
    return True


@pytest.mark.parametrize("section", SOURCES)
def test_the_right_side_of_a_table_names_fields_that_there_are(section: str) -> None:
    assert len(rows(section)) >= 6
    kinds = [schema("gpujobs"), schema("gpupools")]
    for _, right in rows(section):
        spans = [span for span in re.findall(r"`([^`]+)`", right) if not span.startswith("[")]
        wrong = [
            span
            for span in spans
            if span != "spec" and not any(is_field(span.partition(":")[0], each) for each in kinds)
        ]
        assert wrong == []


@pytest.mark.parametrize("section", SOURCES)
def test_the_plan_is_the_one_that_the_page_shows(section: str, tmp_path: Path) -> None:
    _, after, shown = blocks(section)
    (command,) = re.findall(r"`kubectl gpujob (plan [^`]*)`", PAGE)
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(after))
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    program = str(Path(sys.executable).parent / "kubectl-gpujob")
    done = subprocess.run(
        [program, *command.split()], cwd=tmp_path, env={**os.environ, "COLUMNS": "130"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    printed = iter(done.stdout.splitlines())
    lines = [line for line in shown.splitlines() if line]
    assert lines[0] == next(printed)
    assert len(lines) >= 3
    # The others stand in its order; what is left out is not shown as if it were all.
    assert [line for line in lines[1:] if line not in printed] == []


@pytest.mark.e2e
@pytest.mark.parametrize("section", ["A plain Kubernetes Job", "Kueue"])
def test_the_api_server_takes_the_job_before(api: ApiServer, section: str) -> None:
    before, _, _ = blocks(section)
    api.try_out("/apis/batch/v1/namespaces/default/jobs", before)
