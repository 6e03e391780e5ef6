"""images/examples: users' Dockerfiles, built by buildah on a Debian with a stand-in for each vendor's PyTorch.

The vendors' images cannot be had here. What is real: each step of the Dockerfiles, pip's resolver with the constraints that they
make, the user and the files of the result. What is not: PyTorch itself, which is a package of a few lines that says its version
and stack.

buildah loses what a step prints last on a busy machine, so each step is read from a file that it writes.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster.state import REPOSITORY, ClusterError
from tests.e2e.node import needs, operator_image
from tests.e2e.node.operator_image import buildah

pytestmark = [pytest.mark.e2e, pytest.mark.node]

VERSIONS = {"cuda": "2.14.1+cu130", "rocm": "2.12.0+rocm7.14.1"}


def wheel(folder: Path, name: str, version: str, code: str, requires: str = "") -> None:
    """A package of one module, for pip to find."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + (
        f"Requires-Dist: {requires}\n" if requires else ""
    )
    files = {
        f"{name}/__init__.py": code,
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{each},,\n" for each in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(path, text)


def torch(version: str) -> str:
    """A PyTorch that knows its version and its stack."""
    stack, release = version.partition("+")[2][:2], version.partition("+")[2].lstrip("curom")
    cuda, hip = (release, None) if stack == "cu" else (None, release)
    return f"class version:\n    cuda, hip = {cuda!r}, {hip!r}\n__version__ = {version!r}\n"


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A base image for each stack: Debian's Python and pip, the stand-in, and packages for pip instead of an index."""
    if why := needs.missing():
        assert os.environ.get("REAL_NODES") != "required", why
        pytest.skip(why)
    operator_image.make_base()
    folder = tmp_path_factory.mktemp("bases")
    wheels = folder / "wheels"
    wheels.mkdir()
    wheel(wheels, "needs_torch", "1.0", "import torch\n", "torch>=2")
    wheel(wheels, "greedy", "1.0", "", "torch==99.0")
    wheel(wheels, "torch", "99.0", torch("99.0+cu999"))
    made = {}
    for stack, version in VERSIONS.items():
        wheel(folder, "torch", version, torch(version))
        lines = [
            f"FROM {operator_image.BASE}",
            "RUN apt-get update --quiet=2 && apt-get install --quiet=2 --yes --no-install-recommends python3-pip"
            " && rm -f /usr/lib/python3.13/EXTERNALLY-MANAGED",
            "COPY wheels /wheels",
            "ENV PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels PIP_LOG=/said/pip",
            f"COPY torch-{version}-py3-none-any.whl /",
            f"RUN python3 -m pip install --quiet --root-user-action=ignore /torch-{version}-py3-none-any.whl",
        ]
        (folder / f"{stack}.Dockerfile").write_text("\n".join(lines) + "\n")
        made[stack] = f"localhost/example-base-{stack}"
        build(folder / f"{stack}.Dockerfile", made[stack], folder)
    yield made
    buildah("rmi", "--force", *made.values())


def build(dockerfile: Path, tag: str, context: Path, *words: str) -> None:
    flags = ("--quiet", "--layers", "--isolation=chroot", "--network=host")
    buildah("build", *flags, *words, f"--file={dockerfile}", f"--tag={tag}", str(context))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A user's project; its training script only its owner may read."""
    (tmp_path / "requirements.txt").write_text("needs_torch\n")
    (tmp_path / "train.py").write_text("import needs_torch\n")
    (tmp_path / "train.py").chmod(0o600)
    return tmp_path


def built(stack: str, base: str, project: Path, *words: str) -> str:
    tag = f"localhost/example-{stack}"
    build(REPOSITORY / "images" / "examples" / f"{stack}.Dockerfile", tag, project, f"--build-arg=BASE={base}", *words)
    return tag


@pytest.mark.parametrize("stack", VERSIONS)
def test_a_project_goes_on_top_and_the_bases_torch_stays(bases: dict[str, str], project: Path, stack: str) -> None:
    tag = built(stack, bases[stack], project)
    container = buildah("from", tag)
    try:
        program = (
            "import torch, needs_torch, os; print(torch.__version__, os.getuid(), os.getcwd(),"
            " open('train.py').read().strip(), file=open('/tmp/said', 'x'))"
        )
        buildah("run", "--isolation=chroot", container, "--", "python3", "-c", program)
        root = Path(buildah("mount", container))
        assert (root / "tmp" / "said").read_text() == f"{VERSIONS[stack]} 1000 /workspace import needs_torch\n"
        configuration = json.loads(buildah("inspect", "--type=image", tag))["OCIv1"]["config"]
        assert (configuration["User"], configuration["WorkingDir"]) == ("1000", "/workspace")
        assert "PIP_CONSTRAINT=/etc/pip-constraints.txt" in configuration["Env"]
        constraints = (root / "etc" / "pip-constraints.txt").read_text()
        assert (
            f"torch @ file:///torch-{VERSIONS[stack]}" in constraints.replace("%2B", "+")
            or f"torch=={VERSIONS[stack]}" in constraints
        )
    finally:
        buildah("rm", container)
        buildah("rmi", "--force", tag)


@pytest.mark.parametrize("stack", VERSIONS)
def test_a_requirement_that_would_replace_torch_ends_the_build(
    bases: dict[str, str], project: Path, tmp_path_factory: pytest.TempPathFactory, stack: str
) -> None:
    said = tmp_path_factory.mktemp("said")
    said.chmod(0o777)
    (project / "requirements.txt").write_text("greedy\n")
    with pytest.raises(ClusterError, match="pip install"):
        built(stack, bases[stack], project, f"--volume={said}:/said")
    assert "conflict" in (said / "pip").read_text()


def test_a_base_of_the_other_stack_ends_the_build(bases: dict[str, str], project: Path) -> None:
    # buildah itself names the step that failed.
    with pytest.raises(ClusterError, match=r"assert torch\.version\.cuda and not torch\.version\.hip"):
        built("cuda", bases["rocm"], project)
    with pytest.raises(ClusterError, match=r"assert torch\.version\.hip"):
        built("rocm", bases["cuda"], project)
