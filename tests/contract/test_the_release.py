"""What a release is made of, read by the tools that users have: Artifact Hub's annotations, the Lifecycle Manager's bundle, OpenVEX."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpujob import __version__
from gpujob.catalog.files.load import load_catalog
from release import bundle
from release.__main__ import main
from release.bundle import Unplaced, write_bundle
from release.changelog import Change, Unreadable, changes_of
from release.chart import NoPlace
from release.vex import document, read_rows
from tests.contract.test_chart_rendering import helm_program
from tests.e2e.cluster.binaries import RELEASE_MODULE, RELEASE_TOOLS, build
from tests.e2e.cluster.state import REPOSITORY

REGISTRY = "registry.example.com/team/gpujob-operator"
DIGEST = "sha256:" + "0123456789abcdef" * 4
IMAGE = f"--image={REGISTRY}@{DIGEST}"


def tool(name: str) -> str:
    return str(build(RELEASE_TOOLS, RELEASE_MODULE) / name)


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart as `make chart` makes it, before it is packed."""
    folder = tmp_path_factory.mktemp("release") / "gpujob-operator"
    assert main(["chart", str(folder), IMAGE]) == 0
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle as `make bundle` makes it."""
    folder = tmp_path_factory.mktemp("release") / "bundle"
    assert main(["bundle", str(folder), IMAGE, "--helm", helm_program(), "--created", "2026-11-29T00:00:00Z"]) == 0
    return folder


def test_the_published_chart_lists_every_image(chart: Path) -> None:
    listed = yaml.safe_load(read(chart / "Chart.yaml")["annotations"]["artifacthub.io/images"])
    assert listed[0] == {"name": "gpujob-operator", "image": f"{REGISTRY}@{DIGEST}", "platforms": ["linux/amd64"]}
    assert {each["image"] for each in listed[1:]} == {row.image for row in load_catalog().runtimes}
    assert all(each["whitelisted"] for each in listed[1:])
    assert len({each["name"] for each in listed}) == len(listed)


def test_the_published_chart_lists_the_changes_of_the_changelog(chart: Path) -> None:
    listed = yaml.safe_load(read(chart / "Chart.yaml")["annotations"]["artifacthub.io/changes"])
    changes = changes_of((REPOSITORY / "CHANGELOG.md").read_text(), __version__)
    assert [(each["kind"], each["description"]) for each in listed] == [
        (each.kind, each.description) for each in changes
    ]
    lines = (REPOSITORY / "CHANGELOG.md").read_text().count("\n- ")
    assert len(listed) == lines > 50


def test_the_published_chart_names_its_image_and_is_whole(chart: Path) -> None:
    assert read(chart / "values.yaml")["image"] | {"pullPolicy": 0} == {
        "registry": "", "repository": REGISTRY, "tag": "", "digest": DIGEST, "pullPolicy": 0,
    }  # fmt: skip
    done = subprocess.run([helm_program(), "template", "x", str(chart)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f'image: "{REGISTRY}@{DIGEST}"' in done.stdout
    assert "None is published yet" not in (chart / "README.md").read_text() + (chart / "values.yaml").read_text()
    # Nothing else of the chart differs.
    source = REPOSITORY / "charts" / "gpujob-operator"
    changed = {
        str(path.relative_to(chart)) for path in chart.rglob("*")
        if path.is_file() and path.read_bytes() != (source / path.relative_to(chart)).read_bytes()
    }  # fmt: skip
    assert changed == {"Chart.yaml", "README.md", "values.schema.json", "values.yaml"}


def test_the_packed_chart_is_one_that_helm_lints(chart: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [helm_program(), "package", str(chart), f"--destination={tmp_path}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    done = subprocess.run(
        [helm_program(), "lint", "--strict", str(next(tmp_path.glob("*.tgz")))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


TEXT = """# Changelog

## 1.1.0 - 2027-01-01

### Added
- One thing
  in two lines.
- Another: with `code`.

### Fixed
- A fault.

## [1.0.0]

### Removed
- All.

## Unreleased

### Added
- Later.
"""


@pytest.mark.parametrize(
    ("version", "changes"),
    [
        ("1.1.0", [("added", "One thing in two lines."), ("added", "Another: with `code`."), ("fixed", "A fault.")]),
        ("1.0.0", [("removed", "All.")]),
        ("1.2.0", [("added", "Later.")]),
    ],
)
def test_changes_are_those_of_one_version(version: str, changes: list[tuple[str, str]]) -> None:
    assert changes_of(TEXT, version) == tuple(Change(*each) for each in changes)


def test_a_changelog_that_cannot_be_read_is_named() -> None:
    with pytest.raises(Unreadable, match="neither a heading 2 nor Unreleased"):
        changes_of("# Changelog\n\n## 1\n", "2")
    with pytest.raises(Unreadable, match="### Improved is none of Added, Changed"):
        changes_of("## 1\n\n### Improved\n- x\n", "1")


def test_a_release_without_a_digest_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for word in ("registry.example/x", "registry.example/x:1", "registry.example/x@sha256:1", f"@{DIGEST}"):
        with pytest.raises(SystemExit):
            main(["vex", str(tmp_path / "x"), f"--image={word}"])
        assert f"{word} is not REPOSITORY@sha256:…" in capsys.readouterr().err


def test_a_chart_that_lost_the_lines_of_a_release_is_refused(tmp_path: Path) -> None:
    from release.chart import write_chart

    source = tmp_path / "source"
    source.mkdir()
    (source / "values.yaml").write_text("image: {}\n")
    with pytest.raises(NoPlace, match="'repository: \"\"' stands 0 times in the chart"):
        write_chart(source, tmp_path / "out", REGISTRY, DIGEST, (), ())


ACCEPTED = (
    # By the names of resources alone, whatever their group: ours are events.k8s.io and node.k8s.io/v1.
    "this bundle is using APIs which were deprecated and removed in v1.25",
    "validator is deprecated; for equivalent validation use",
    # People write no profile.
    "Kind=GPUJobProfile: provided API should have an example annotation",
)


def findings(folder: Path) -> list[str]:
    """What the Lifecycle Manager's own validation says of a bundle, without the warnings that are known."""
    command = [tool("operator-verify"), "manifests", str(folder), "--operatorhub_validate", "--object_validate"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return [line for line in (done.stdout + done.stderr).splitlines() if not any(each in line for each in ACCEPTED)]


def test_the_lifecycle_manager_finds_no_fault_with_the_bundle(made: Path) -> None:
    assert findings(made) == []


@pytest.mark.parametrize(
    ("member", "said"),
    [
        ("version", "csv.Spec.Version must be set"),
        ("displayName", "Field Spec.DisplayName"),
        ("installModes", "install modes not found"),
    ],
)
def test_the_lifecycle_manager_finds_what_is_missing(made: Path, tmp_path: Path, member: str, said: str) -> None:
    for path in made.rglob("*"):
        if path.is_file():
            target = tmp_path / path.relative_to(made)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    path = tmp_path / "manifests" / "gpujob-operator.clusterserviceversion.yaml"
    csv = read(path)
    del csv["spec"][member]
    path.write_text(yaml.safe_dump(csv))
    assert said in "\n".join(findings(tmp_path))


def test_the_bundle_names_no_address_that_the_chart_does_not_name(made: Path) -> None:
    chart = read(REPOSITORY / "charts" / "gpujob-operator" / "Chart.yaml")
    named = {each["email"] for each in chart["maintainers"] if "email" in each}
    text = (made / "manifests" / "gpujob-operator.clusterserviceversion.yaml").read_text()
    assert set(re.findall(r"[\w.+-]+@[\w-]+(?:[.][\w-]+)+", text)) == named


@pytest.mark.parametrize(
    ("maintainers", "member"),
    [
        ([], {}),
        ([{"name": "a"}], {}),
        ([{"name": "a", "email": ""}], {}),
        (
            [{"name": "a"}, {"name": "b", "email": "b@c.d", "url": "x"}],
            {"maintainers": [{"name": "b", "email": "b@c.d"}]},
        ),
    ],
)
def test_who_has_no_address_is_no_maintainer_of_the_bundle(
    maintainers: list[dict[str, str]], member: dict[str, Any]
) -> None:
    from release.bundle import _maintainers

    assert _maintainers(maintainers) == member


def rendered(chart_folder: Path | None = None) -> list[dict[str, Any]]:
    from release.__main__ import _rendered

    return _rendered(helm_program(), REGISTRY, DIGEST)


def test_the_bundle_is_what_the_chart_renders(made: Path) -> None:
    objects = {(each["kind"], each["metadata"]["name"]): each for each in rendered()}
    csv = read(made / "manifests" / "gpujob-operator.clusterserviceversion.yaml")
    install = csv["spec"]["install"]["spec"]
    (deployment,) = install["deployments"]
    assert deployment["spec"] == objects["Deployment", "gpujob-operator"]["spec"]
    assert install["clusterPermissions"][0]["rules"] == objects["ClusterRole", "gpujob-operator"]["rules"]
    assert install["permissions"][0]["rules"] == objects["Role", "gpujob-operator"]["rules"]
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    assert {each["serviceAccountName"] for kind in ("clusterPermissions", "permissions") for each in install[kind]} == {
        account
    }
    bundled = [read(path) for path in (made / "manifests").glob("*.yaml")]
    beside = list(yaml.safe_load_all((made / "admission.yaml").read_text()))
    # Every object of the chart is in the version, in the bundle, beside it, or of a kind that is named as left out.
    there = {(each["kind"], each["metadata"]["name"]) for each in [*bundled, *beside]}
    in_the_version = {
        key
        for key in objects
        if key[0] in bundle.IN_THE_VERSION or key in (("ClusterRole", "gpujob-operator"), ("Role", "gpujob-operator"))
    }
    left_out = {key for key in objects if key[0] in bundle.LEFT_OUT}
    assert there | in_the_version | left_out == set(objects) | {
        ("ClusterServiceVersion", f"gpujob-operator.v{__version__}")
    }
    assert {key[0] for key in left_out} == {"PodMonitor"}
    for each in [*bundled, *beside]:
        assert each["kind"] == "ClusterServiceVersion" or "namespace" not in each["metadata"]
        assert "helm.sh/resource-policy" not in each["metadata"].get("annotations", {})


def test_the_bundle_names_its_crds_its_images_and_its_examples(made: Path) -> None:
    csv = read(made / "manifests" / "gpujob-operator.clusterserviceversion.yaml")
    served = {read(path)["metadata"]["name"] for path in (REPOSITORY / "crds").glob("*.yaml")}
    assert {each["name"] for each in csv["spec"]["customresourcedefinitions"]["owned"]} == served
    related = {each["image"] for each in csv["spec"]["relatedImages"]}
    assert related == {f"{REGISTRY}@{DIGEST}"} | {row.image for row in load_catalog().runtimes}
    assert {each["kind"] for each in json.loads(csv["metadata"]["annotations"]["alm-examples"])} == {
        "GPUJob",
        "GPUPool",
        "GPURuntime",
    }
    labels = read(made / "metadata" / "annotations.yaml")["annotations"]
    dockerfile = (made / "bundle.Dockerfile").read_text()
    assert all(f"LABEL {name}={word}\n" in dockerfile for name, word in labels.items())
    assert f"Apply `{bundle.ADMISSION}`" in csv["spec"]["description"]


def test_a_kind_of_which_nobody_says_where_it_goes_is_refused(tmp_path: Path) -> None:
    objects = [*rendered(), {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}]
    with pytest.raises(Unplaced, match=r"the chart renders Secret: say in release/bundle\.py what becomes of it"):
        write_bundle(tmp_path, objects, None)  # type: ignore[arg-type]


def test_the_same_release_has_the_same_bytes(made: Path, tmp_path: Path) -> None:
    code = "import sys; from release.__main__ import main; main(sys.argv[1:])"
    words = ["bundle", str(tmp_path / "b"), IMAGE, "--helm", helm_program(), "--created", "2026-11-29T00:00:00Z"]
    environment = {
        "PYTHONHASHSEED": "7",
        "PYTHONPATH": str(REPOSITORY),
        "PATH": "/usr/bin:/bin",
        "HOME": str(Path.home()),
    }
    subprocess.run([sys.executable, "-c", code, *words], check=True, env=environment, timeout=120)
    for path in made.rglob("*"):
        if path.is_file():
            assert (tmp_path / "b" / path.relative_to(made)).read_bytes() == path.read_bytes(), path.name


def loaded_modules() -> Iterator[str]:
    """Every module that is loaded where all of the operator is, in a Python of its own."""
    code = (
        "import importlib, pkgutil, sys, gpujob\n"
        "for each in pkgutil.walk_packages(gpujob.__path__, 'gpujob.'):\n"
        "    if not each.name.startswith('gpujob.cli'): importlib.import_module(each.name)\n"
        "print(*sys.modules, sep='\\n')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    yield from done.stdout.split()


def test_the_operator_loads_no_module_that_the_vex_document_says_it_does_not() -> None:
    loaded = set(loaded_modules())
    assert {"gpujob.cluster.app.app", "aiohttp"} <= loaded
    for row in read_rows():
        importlib.import_module(row["module"])  # It is a module of Python's library.
        assert row["module"] not in loaded, row


def test_the_vex_document_is_read_as_scanners_read_it(tmp_path: Path) -> None:
    path = tmp_path / "x.openvex.json"
    assert main(["vex", str(path), IMAGE]) == 0
    done = subprocess.run([tool("vex"), path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(path.read_text())
    assert found["@context"] == "https://openvex.dev/ns/v0.2.0"
    assert [each["vulnerability"]["name"] for each in found["statements"]] == [
        row["vulnerability"] for row in read_rows()
    ]
    for each in found["statements"]:
        assert re.fullmatch(
            r"pkg:oci/gpujob-operator@sha256%3A[0-9a-f]{64}\?repository_url=.+", each["products"][0]["@id"]
        )


@pytest.mark.parametrize(
    "change",
    [{"justification": "it_is_fine"}, {"status": "harmless"}, {"status": "affected"}, {"products": []}],
    ids=str,
)
def test_a_statement_that_is_not_valid_is_found(tmp_path: Path, change: dict[str, Any]) -> None:
    found = document(read_rows(), REGISTRY, DIGEST)
    found["statements"][0] |= change
    (tmp_path / "x.json").write_text(json.dumps(found))
    assert subprocess.run([tool("vex"), tmp_path / "x.json"], capture_output=True, check=False).returncode != 0


def test_the_document_changes_with_its_rows_alone() -> None:
    rows = read_rows()
    assert document(rows, REGISTRY, DIGEST) == document(rows, REGISTRY, DIGEST)
    assert document(rows, REGISTRY, DIGEST)["@id"] != document(rows[:1], REGISTRY, DIGEST)["@id"]
