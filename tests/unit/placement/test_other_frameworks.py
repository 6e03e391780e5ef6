"""Jobs of frameworks that are not PyTorch: images of both vendors, and what is not known of them."""

from __future__ import annotations

from typing import Any

import pytest
from builders import A100, H100, MI210, MI300X, Object, demand, fleet, node

from gpujob.catalog.files.load import load_catalog
from gpujob.catalog.images.versions import release
from gpujob.placement.engine.decide import decide
from gpujob.placement.scoring.candidate import Candidate
from gpujob.placement.suggestions.search import with_fix
from gpujob.values.vocabulary import Backend, Outcome, Reason
from tests.e2e.cluster.nodes import Nvidia

CATALOG = load_catalog()
DRIVER = {"nvidia.com/cuda.driver-version.full": "580.95.05"}
H, A = node("h", H100, labels=DRIVER, price="2"), node("a", A100, labels=DRIVER, price="2")
M, OLDER = node("m", MI300X, price="1"), node("i", MI210, price="1")


def fitting(*objects: Object, **spec: Any) -> dict[str, Candidate]:
    """The first candidate of each vendor's stack that fits or is chosen."""
    found: dict[str, Candidate] = {}
    for each in decide(demand(**spec), fleet(*objects, catalog=CATALOG), CATALOG).candidates:
        if each.outcome in (Outcome.FITS, Outcome.CHOSEN):
            found.setdefault(each.pool.vendor.value, each)
    return found


@pytest.mark.parametrize("name", ["vllm", "sglang", "jax", "tensorflow"])
def test_each_vendor_has_an_image(name: str) -> None:
    assert {row.backend for row in CATALOG.runtimes if row.framework == name} == set(Backend)
    assert set(fitting(H, M, framework={"name": name})) == {"AMD", "NVIDIA"}


@pytest.mark.parametrize("name", ["vllm", "jax", "tensorflow"])
def test_older_devices_have_one_too(name: str) -> None:
    assert set(fitting(A, OLDER, framework={"name": name})) == {"AMD", "NVIDIA"}


GH200 = Nvidia("NVIDIA-GH200-480GB", 97871, "hopper", (9, 0), mig=True)
GB200 = Nvidia("NVIDIA-GB200", 189471, "blackwell", (10, 0), mig=True)
GB300 = Nvidia("NVIDIA-GB300", 284208, "blackwell", (10, 3), mig=True)


@pytest.mark.parametrize("device", [GH200, GB200, GB300])
@pytest.mark.parametrize("name", ["pytorch", "vllm", "sglang", "jax", "tensorflow"])
def test_each_framework_has_an_image_for_arm64_hosts(name: str, device: Nvidia) -> None:
    grace = node("g", device, 4, labels={**DRIVER, "kubernetes.io/arch": "arm64"})
    found = fitting(grace, framework={"name": name})
    row = next(row for row in CATALOG.runtimes if row.name == found["NVIDIA"].runtime.name)
    assert "arm64" in row.cpu_architectures


def test_an_older_driver_of_an_arm64_host_gets_the_older_cuda_of_vllm() -> None:
    driver = {"nvidia.com/cuda.driver-version.full": "570.86.15"}
    grace = node("g", GH200, 1, labels={**driver, "kubernetes.io/arch": "arm64"})
    assert fitting(grace, framework={"name": "vllm"})["NVIDIA"].runtime.name == "vllm-0.28.0-cuda12.9"


def test_an_image_of_one_family_runs_on_no_other() -> None:
    assert set(fitting(A, OLDER, framework={"name": "sglang"})) == {"NVIDIA"}


def told(**spec: Any) -> list[str]:
    found = fitting(H, M, **spec)
    warnings = {tuple(d.message for d in c.warnings if d.reason is Reason.FRAMEWORK_UNMEASURED) for c in found.values()}
    assert len(found) == 2
    assert len(warnings) == 1, "both vendors' pools say the same"
    return list(warnings.pop())


@pytest.mark.parametrize("name", ["jax", "tensorflow"])
def test_what_is_not_known_of_them_is_said(name: str) -> None:
    seen = f"progress and speed of {name} are not seen by themselves; call gpujob_report.step() after each step"
    memory = f"the memory estimate is that of PyTorch, what {name} takes is not known; write gpuMemory"
    assert told(framework={"name": name}) == [seen]
    assert told(framework={"name": name}, model={"parameters": "1B", "method": "LoRA"}) == [memory, seen]


def test_pytorch_is_known() -> None:
    assert told(framework={"name": "pytorch"}) == []


@pytest.mark.parametrize("name", ["vllm", "sglang", "vLLM", "SGLang"])
def test_an_engine_makes_no_step_and_its_memory_is_known(name: str) -> None:
    seen = f"progress and speed of {name.lower()} are not seen by themselves; call gpujob_report.step() after each step"
    assert told(framework={"name": name}) == [seen]
    assert told(framework={"name": name}, model={"parameters": "1B", "method": "Inference"}) == [seen]


@pytest.mark.parametrize("name", ["PyTorch", "JAX", "TensorFlow", "vLLM"])
def test_case_does_not_matter(name: str) -> None:
    assert fitting(H, M, framework={"name": name}).keys() == fitting(H, M, framework={"name": name.lower()}).keys()
    assert demand(framework={"name": name}).framework == name.lower()


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("keras", "tensorflow"), ("TF", "tensorflow"), ("Flax", "jax"), ("jaxx", "jax"), ("transformers", "pytorch"),
        ("DeepSpeed", "pytorch"), ("vLLM", "vllm"), ("onnx", None), ("TensorRT", None), ("TensorRT-LLM", None), ("caffe", None),
    ],
)  # fmt: skip
def test_a_library_is_near_the_framework_that_it_runs_on(word: str, meant: str | None) -> None:
    assert load_catalog().nearest_framework(word) == meant


@pytest.mark.parametrize(
    ("name", "asked", "end"),
    [
        ("vllm", ">=99", max), ("jax", ">=9", max), ("pytorch", ">=300", max), ("sglang", ">=80", max),
        ("tensorflow", "==2000.1", max), ("vllm", "<0.1", min), ("jax", "<0.0.2", min),
    ],
)  # fmt: skip
def test_the_nearest_version_of_a_far_one_is_the_newest_or_the_oldest(name: str, asked: str, end: Any) -> None:
    versions = (release(row.framework_version) for row in CATALOG.runtimes if row.framework == name)
    nearest = ".".join(map(str, end(filter(None, versions))))
    known = fleet(node("m", MI300X, price="1"), node("h", H100, price="2.5"), catalog=CATALOG)
    fix = with_fix(decide(demand(framework={"name": name, "version": asked}), known, CATALOG), known, CATALOG).fix
    assert fix is not None
    assert [(change.field, change.after) for change in fix.changes] == [("spec.framework.version", f"=={nearest}")]
