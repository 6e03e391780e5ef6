"""What the pages show is accepted: each YAML block is a manifest, or members of a GPUJob's or GPUPool's spec."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpujob.api.manifest import read_gpujob, read_gpupool, read_gpuruntime
from gpujob.catalog.files.extending import extended, extends
from gpujob.catalog.files.load import load_catalog
from gpujob.catalog.files.site import with_site
from gpujob.cli.doctor.checks import BEFORE_UNINSTALL, CHECKS
from gpujob.values.vocabulary import API_VERSION
from tests.commands_of_pages import NOT_RUN, WHERE, commands_of
from tests.commands_of_pages import PAGES as PAGES_WITH_COMMANDS
from tests.contract.test_chart_rendering import rendered
from tests.e2e.api_server import GPUJOBS, ApiServer

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "guides").glob("*.md"))]
LINKING = [
    path
    for path in sorted(ROOT.rglob("*.md"))
    if not {"node_modules", ".venv", ".uv", ".docs", ".release", "dist"} & {*path.relative_to(ROOT).parts}
]


def read_runtime(manifest: dict[str, Any]) -> object:
    """A GPURuntime, with the facts of the row that it extends."""
    spec = extended(manifest["spec"], load_catalog().runtimes) if extends(manifest) else manifest["spec"]
    return read_gpuruntime({**manifest, "spec": spec})


SITE_VALUES = {"prices", "catalog", "imageMirrors", "docsURL"}
CHART_VALUES = {*SITE_VALUES, "image", "imagePullSecrets"}
READERS = {"GPUJob": read_gpujob, "GPUPool": read_gpupool, "GPURuntime": read_runtime}
BLOCKS = [
    pytest.param(yaml.safe_load(text), id=f"{page.stem}-{number}")
    for page in PAGES
    for number, text in enumerate(re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL))
]


def manifest_of(block: dict[str, Any]) -> dict[str, Any]:
    """The block as a whole manifest: the kind follows from the members that only a GPUPool has."""
    if "kind" in block:
        return block
    spec = block.get("spec", block)
    kind = "GPUPool" if "nodeSelector" in spec else "GPUJob"
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "shown"}, "spec": spec}


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_is_accepted(block: dict[str, Any]) -> None:
    if block.keys() <= CHART_VALUES:
        site = {key: value for key, value in block.items() if key in SITE_VALUES}
        assert with_site(load_catalog(), yaml.safe_dump(site)).refused == ()
        assert rendered(block)
        return
    manifest = manifest_of(block)
    READERS[manifest["kind"]](manifest)


@pytest.mark.e2e
@pytest.mark.parametrize("block", BLOCKS)
def test_the_api_server_takes_a_block(api: ApiServer, installed: None, block: dict[str, Any]) -> None:
    """By the CRD, checked as strictly as kubectl does; but for a ServiceAccount, which an admin must allow (test_what_attacks_get)."""
    if block.keys() <= CHART_VALUES:
        return
    manifest = manifest_of(block)
    manifest["spec"] = {key: value for key, value in manifest["spec"].items() if key != "serviceAccountName"}
    kind = manifest["kind"]
    path = GPUJOBS.format("default") if kind == "GPUJob" else f"/apis/{API_VERSION}/{kind.lower()}s"
    metadata = {**manifest["metadata"], "namespace": "default"} if kind == "GPUJob" else manifest["metadata"]
    api.try_out(path, {**manifest, "metadata": metadata})


def test_pages_show_every_kind_that_people_write() -> None:
    shown = {manifest_of(block.values[0])["kind"] for block in BLOCKS if not block.values[0].keys() <= CHART_VALUES}
    assert shown >= READERS.keys()


def test_every_command_of_a_page_is_run_by_a_test_or_named_with_the_reason() -> None:
    shown = {command for page in PAGES_WITH_COMMANDS for command in commands_of(page)}
    assert shown - WHERE.keys() - NOT_RUN.keys() == set()
    assert (WHERE.keys() | NOT_RUN.keys()) - shown == set(), "no page shows them any more"
    assert WHERE.keys() & NOT_RUN.keys() == set()
    assert len(WHERE) >= 20
    for test in set(WHERE.values()):
        assert (ROOT / test).is_file()


def test_the_worked_example_is_the_plan_of_its_command() -> None:
    page = (ROOT / "docs" / "placement.md").read_text()
    (section,) = re.findall(r"## A worked example\n(.*?)\n## ", page, re.DOTALL)
    (command,) = re.findall(r"`kubectl gpujob (plan [^`]*)`", section)
    program = str(Path(sys.executable).parent / "kubectl-gpujob")
    shown = subprocess.run(
        [program, *command.split(), "-o", "json", "--all"], cwd=ROOT, capture_output=True, check=True
    )
    candidates = json.loads(shown.stdout)["candidates"]
    rejected = [each for each in candidates if each["outcome"] == "Rejected"]
    busy = {each["pool"].partition("-g")[0].partition("-p4")[0] for each in candidates if each["outcome"] == "Busy"}
    assert f"[{len(candidates)} candidates: {len({each['pool'] for each in candidates})} pools x 18 images]" in section
    assert {(each["accelerator"], *(why["reason"] for why in each["reasons"])) for each in rejected} == {
        ("MI210", "ArchUnsupported")
    }
    assert f"{len(rejected)} Rejected: no code for MI210" in section
    assert f"[{len(candidates) - len(rejected)} candidates]" in section
    assert f"Busy: {', '.join(sorted(busy, reverse=True))}" in section
    prices = {each["accelerator"]: each["pricePerHour"] for each in candidates if each["outcome"] in ("Chosen", "Fits")}
    assert prices == {"MI210": "0.45", "L4": "1.15", "MI300X": "6.00", "H100-SXM": "6.88"}
    for accelerator, price in prices.items():
        assert f"[{accelerator.lower()} {price}]" in section
    (chosen,) = [each for each in candidates if each["outcome"] == "Chosen"]
    assert f"Chosen: {chosen['accelerator'].lower()}" in section


def test_the_page_of_doctor_has_a_row_for_each_check_in_their_order() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \|", (ROOT / "docs" / "doctor.md").read_text(), re.MULTILINE)
    checks = (*CHECKS, *BEFORE_UNINSTALL)
    names = [set(re.findall(r'"([a-z]+(?:-[a-z]+)*)"', inspect.getsource(check))) for check in checks]
    assert len(rows) == len(checks)
    assert [row for row, words in zip(rows, names, strict=True) if row not in words] == []


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them: lower case, words joined by hyphens, no other signs."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.stem)
def test_a_page_says_what_it_is_about_and_has_its_first_heading_near_its_begin(page: Path) -> None:
    title, _, *lines = page.read_text().splitlines()
    assert title.startswith("# ")
    assert re.match(r"[A-Z*]", lines[0]), "a sentence comes first"
    assert any(line.startswith("## ") for line in lines[:14])


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        there = page.parent / name if name else page
        assert there.exists(), target
        assert not anchor or there.is_dir() or anchor in anchors(there), target
