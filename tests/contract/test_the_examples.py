"""The examples as a person starts from them: planned on both vendors, free of vendors' terms, and listed in the README."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpujob.catalog.files.load import load_catalog
from gpujob.cli.input.jobs import read_jobs
from gpujob.cli.planning.planner import plan_jobs
from gpujob.fleet.sources.cluster_file import fleet_of, read_cluster

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
CLUSTERS = {path.stem: path.read_text() for path in sorted((ROOT / "examples" / "clusters").glob("*.yaml"))}
MI210, H100, L4 = "mi210-ondemand", "h100-sxm-p5-48xlarge-ondemand", "l4-g6-12xlarge-ondemand"
PLANS = {
    "01-hello-gpu": (MI210, L4, "1x1"),
    "02-finetune-one-gpu": (MI210, H100, "1x1"),
    "03-ddp-two-nodes": (MI210, H100, "2x2"),
    "04-fsdp-checkpoint": (MI210, H100, "2x4"),
    "05-hugging-face-trainer": (MI210, H100, "1x2"),
    "06-vllm-batch": (MI210, H100, "1x1"),
    "07-own-images": (MI210, L4, "1x1"),
}
"""What each takes of the mixed cluster: among AMD's pools, among NVIDIA's, and nodes x GPUs. AMD's is the cheaper one."""


def documents(example: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(example.read_text()))


def job_of(example: Path) -> dict[str, Any]:
    (job,) = (each for each in documents(example) if each["kind"] == "GPUJob")
    return job


def chosen(job: dict[str, Any], cluster: str, *vendors: str) -> tuple[str, str]:
    """The pool and the shape that a job gets among the pools of some vendors, or the verdict and its message."""
    spec = job["spec"]
    limits = {**spec.get("placement", {}), **({"vendors": list(vendors)} if vendors else {})}
    document = {**job, "spec": {**spec, **({"placement": limits} if limits else {})}}
    fleet, catalog = fleet_of(read_cluster(CLUSTERS[cluster]), load_catalog())
    (plan,) = plan_jobs(read_jobs(yaml.safe_dump(document), None), fleet, catalog, {})
    choice = plan.decision.choice
    if choice is None:
        return plan.decision.verdict, ""
    gang = choice.candidate.gang
    return choice.candidate.pool.name, f"{gang.nodes}x{gang.gpus_per_node}"


def test_no_example_is_left_out() -> None:
    assert [path.stem for path in EXAMPLES] == list(PLANS)
    assert list(CLUSTERS) == ["mixed"], "a new cluster needs plans of its own here"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_it_is_placed_on_either_vendor_and_on_the_better_one_of_both(example: Path) -> None:
    amd, nvidia, shape = PLANS[example.stem]
    job = job_of(example)
    assert chosen(job, "mixed", "AMD") == (amd, shape)
    assert chosen(job, "mixed", "NVIDIA") == (nvidia, shape)
    assert chosen(job, "mixed") == (amd, shape)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_it_says_what_it_shows_and_no_word_of_a_vendor(example: Path) -> None:
    text = example.read_text()
    assert text.startswith("# ")
    assert f"plan -f {example.name}" in text
    spec = {key: value for key, value in job_of(example)["spec"].items() if key != "images"}
    # `cuda` is what PyTorch calls every GPU.
    assert not re.findall(r"nvidia|amd\b|rocm|gfx\d|h100|mi\d{3}", yaml.safe_dump(spec).lower())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_its_code_compiles_and_is_found_where_the_job_looks_for_it(example: Path) -> None:
    maps = {each["metadata"]["name"]: each["data"] for each in documents(example) if each["kind"] == "ConfigMap"}
    code = job_of(example)["spec"].get("code", {}).get("configMap", {}).get("name")
    assert set(maps) == ({code} if code else set())
    for data in maps.values():
        for name, text in data.items():
            if name.endswith(".py"):
                compile(text, name, "exec")


def test_the_readme_lists_every_example() -> None:
    assert re.findall(r"\[[\w-]+\]\(examples/([\w-]+)\.yaml\)", (ROOT / "README.md").read_text()) == list(PLANS)


@pytest.mark.parametrize(("name", "backend", "other"), [("cuda", "CUDA", "hip"), ("rocm", "ROCm", "cuda")])
def test_the_dockerfiles_begin_with_an_image_of_the_catalog_and_keep_its_torch(
    name: str, backend: str, other: str
) -> None:
    text = (ROOT / "images" / "examples" / f"{name}.Dockerfile").read_text()
    (base,) = re.findall(r"^ARG BASE=(\S+)$", text, re.MULTILINE)
    assert {row.backend.value for row in load_catalog().runtimes if row.image == base} == {backend}
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert [line.split()[0] for line in lines] == [
        "ARG", "FROM", "RUN", "ENV", "COPY", "RUN", "COPY", "WORKDIR", "RUN", "USER", "RUN",
    ]  # fmt: skip
    # The constraint is there before anything is installed, and the stack is asserted by the user that runs it.
    assert text.index("pip-constraints.txt\nENV") < text.index("pip install")
    assert lines[-2:] == ["USER 1000", lines[-1]]
    assert f"not torch.version.{other}" in lines[-1]
