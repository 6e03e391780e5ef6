"""What `--catalog FILE` may be, and how rows that contradict themselves are refused alone."""

from __future__ import annotations

import json

import pytest

from gpujob.api.kinds.gpuruntime import GPURuntimeSpec
from gpujob.catalog.catalog import Catalog
from gpujob.catalog.files.load import load_catalog, read_catalog
from gpujob.catalog.images.from_spec import runtime_of
from gpujob.values.errors import BadInput, CatalogInvalid
from gpujob.values.vocabulary import Backend, CapacityType

SHIPPED = load_catalog()
GOOD = (
    "image: a, backend: ROCm, backendVersion: 7.2, framework: {name: pytorch, version: 2.10}, architectures: [gfx942]"
)


def only_refused(catalog: Catalog) -> str:
    ((_, sentence),) = catalog.refused
    return sentence


def test_a_cuda_build_on_a_rocm_image_is_refused_alone() -> None:
    catalog = read_catalog("""
        - name: rocm7-0601
          image: reg.example/rocm7:0601
          backend: ROCm
          backendVersion: "7.2"
          framework: {name: pytorch, version: 2.12.0+cu130}
          architectures: [gfx942]
        - name: rocm7-0521
          image: reg.example/rocm7:0521
          backend: ROCm
          backendVersion: "7.2"
          framework: {name: pytorch, version: 2.9.1+rocm7.2}
          architectures: [gfx942]
    """)
    assert [row.image for row in catalog.runtimes] == ["reg.example/rocm7:0521"]
    assert catalog.refused == (
        (
            "rocm7-0601",
            "runtime rocm7-0601: framework.version 2.12.0+cu130 is a CUDA 13.0 build, but backend is ROCm; "
            "a build for ROCm is wanted",
        ),
    )


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (
            "{backend: CUDA, backendVersion: 12.6, framework: {name: pytorch, version: 2.9.1+rocm7.2}, "
            "architectures: [9.0], image: a}",
            "framework.version 2.9.1+rocm7.2 is a ROCm 7.2 build, but backend is CUDA; a build for CUDA is wanted",
        ),
        (
            "{backend: CUDA, backendVersion: 12.6, framework: {name: pytorch, version: 2.9.1+cu130}, "
            "architectures: [9.0], image: a}",
            "framework.version 2.9.1+cu130 is a CUDA 13.0 build, but backendVersion is 12.6; the two must agree",
        ),
        (
            "{backend: CUDA, backendVersion: 12.6, framework: {name: pytorch, version: 2.9.1}, "
            "architectures: [9.0, gfx942], image: a}",
            "architectures has gfx942, but backend is CUDA; compute capabilities such as 9.0 are wanted",
        ),
        (
            "{backend: ROCm, backendVersion: 7.2, framework: {name: pytorch, version: 2.9.1}, "
            "architectures: [9.0], image: a}",
            "architectures has 9.0, but backend is ROCm; gfx architectures such as gfx942 are wanted",
        ),
        (
            "{backend: ROCm, backendVersion: 7.2, framework: {name: pytorch, version: 2.9.1}, "
            "architectures: [], image: a}",
            "architectures is empty; list the gfx architectures such as gfx942 that are compiled in",
        ),
        (
            "{backend: ROCm, backendVersion: 99999999999, framework: {name: pytorch, version: 2.9.1}, "
            "architectures: [gfx942], image: a}",
            "backendVersion '99999999999' holds no version number such as 2.14.1",
        ),
        (
            "{backend: CUDA, backendVersion: 13.0, framework: {name: pytorch, version: 25.09}, "
            "architectures: [9.0], image: a}",
            "framework.version 25.09 is that of an image, named by year and month; write that of the PyTorch inside, "
            "such as 2.14.0a0",
        ),
        (f"{{{GOOD}, architecture: gfx90a}}", "there is no field architecture; did you mean architectures?"),
        (f"{{{GOOD}, minDriver: latest}}", "minDriver is 'latest': "),
        ("{image: a}", "backend is missing"),
        (f"{{{GOOD}, runsAsNonRoot: maybe}}", "runsAsNonRoot is 'maybe': Input should be 'True', 'False' or 'Unknown'"),
        (f"{{{GOOD}, size: 25}}", "size is '25': 25 is not a size of at least 1M; write a number with a unit"),
    ],
)
def test_rows_that_contradict_themselves(row: str, sentence: str) -> None:
    catalog = read_catalog(f"runtimes:\n- {row[:1]}name: odd, {row[1:]}\n- {{name: good, {GOOD}}}")
    assert [row.name for row in catalog.runtimes] == ["good"]
    assert only_refused(catalog).startswith(f"runtime odd: {sentence}")


def test_a_rocm_build_of_the_same_version_agrees() -> None:
    catalog = read_catalog(
        "[{name: a, image: a, backend: ROCm, backendVersion: 10.0, architectures: [gfx942], "
        "framework: {name: pytorch, version: 2.13.0+rocm10.0.0}}]"
    )
    assert catalog.refused == ()
    assert catalog.runtimes[0].backend_release == (10, 0)


def test_versions_need_no_quotes() -> None:
    (runtime,) = read_catalog(f"- {{name: a, {GOOD}}}").runtimes
    assert (runtime.framework_version, runtime.framework_release) == ("2.10", (2, 10))


def test_objects_in_several_documents_lists_and_json() -> None:
    spec = {
        "image": "reg.example/a",
        "backend": "CUDA",
        "backendVersion": "13.0",
        "framework": {"name": "pytorch", "version": "2.14.1"},
        "architectures": ["9.0", "12.0+PTX"],
        "size": "25Gi",
        "preference": 7,
        "runsAsNonRoot": "True",
    }
    objects = [
        {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPURuntime", "metadata": {"name": name}, "spec": spec}
        for name in ("a", "b")
    ]
    documents = "\n---\n".join(json.dumps(one) for one in objects)
    for text in (documents, json.dumps({"kind": "List", "items": objects}), json.dumps(objects)):
        catalog = read_catalog(text)
        assert [row.name for row in catalog.runtimes] == ["a", "b"]
        assert catalog.refused == ()
        first = catalog.runtimes[0]
        assert (first.backend, first.size_bytes, first.preference) == (Backend.CUDA, 25 * 1024**3, 7)
        assert (first.runs_as_non_root, first.source) == ("True", "GPURuntime")
    (single,) = read_catalog(json.dumps(objects[0])).runtimes
    assert single.name == "a"


def test_other_kinds_and_nameless_objects_are_refused_alone() -> None:
    catalog = read_catalog(f"""
{{kind: Node, metadata: {{name: n1}}}}
---
{{kind: GPURuntime, spec: {{{GOOD}}}}}
---
{{kind: GPURuntime, metadata: {{name: good}}, spec: {{{GOOD}}}}}
""")
    assert [row.name for row in catalog.runtimes] == ["good"]
    assert catalog.refused == (
        ("n1", "runtime n1: kind is Node; GPURuntime is wanted"),
        (
            "runtimes row 1",
            "runtime without a name: name must be lower-case letters, digits, - and .",
        ),
    )


def test_a_row_without_a_name_is_called_after_its_image() -> None:
    (runtime,) = read_catalog(f"- {{{GOOD.replace('image: a', 'image: Reg.example/rocm7:0521')}}}").runtimes
    assert runtime.name == "reg.example-rocm7-0521"


def test_the_first_of_two_rows_with_one_name_is_kept() -> None:
    catalog = read_catalog(f"- {{name: a, {GOOD}}}\n- {{name: a, {GOOD}, preference: 9}}")
    assert [row.preference for row in catalog.runtimes] == [0]
    assert only_refused(catalog) == "a is given twice in runtimes; the first row is used"


def test_a_section_replaces_the_shipped_one_and_others_stay() -> None:
    catalog = read_catalog("""
sources: {lab: {text: our own measurement, checkedOn: 2026-11-01}}
accelerators:
- {id: MI300X, name: ours, architecture: gfx942, memory: 192Gi, torchMemory: 190Gi, source: lab}
prices:
- {cloud: lab, region: any, source: lab, perNodeHour: {p5.48xlarge: 8}, perGPUHour: {MI300X: 0.5}}
""")
    (device,) = catalog.accelerators
    assert (device.usable_bytes, device.source, device.checked_on) == (
        190 * 1024**3,
        "our own measurement",
        "2026-11-01",
    )
    assert "FP8FNUZ" in device.features
    assert [price.per_gpu_hour for price in catalog.prices] == [1_000_000, 500_000]
    assert catalog.indicative_price("MI300X", CapacityType.ON_DEMAND) is not None
    assert catalog.features is SHIPPED.features
    assert catalog.instance_types is SHIPPED.instance_types
    assert catalog.runtimes == SHIPPED.runtimes
    assert catalog.refused == ()


def test_new_silicon_is_data() -> None:
    catalog = read_catalog("""
features: [{name: BF16, levels: accelerator, reason: PrecisionUnsupported}, {name: FP4, levels: [accelerator]}]
architectures: {gfx1251: {features: [BF16, FP4], minDriver: 7.1}}
accelerators: [{id: MI430X, name: AMD Instinct MI430X, architecture: gfx1251, deviceIds: [75ff]}]
""")
    device = catalog.by_device_id("75ff")
    assert device is not None
    assert (device.features, device.min_driver) == ({"BF16", "FP4"}, "7.1")
    assert set(catalog.features) == {"BF16", "FP4"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "accelerators: [{id: X, name: X, architecture: gfx942, memory: lots}]",
            "accelerator X: memory is 'lots'; a memory size such as 192Gi is wanted",
        ),
        (
            "accelerators: [{id: X, name: X, architecture: gfx942, bf16: -1}]",
            "accelerator X: bf16 is '-1'; a positive number is wanted",
        ),
        ("accelerators: [{id: X, name: X}]", "accelerator X: architecture is missing"),
        (
            "accelerators: [{id: X, name: X, architecture: gfx942, minBackend: new}]",
            "accelerator X: minBackend is 'new'; a version such as 580.65.06 is wanted",
        ),
        (
            "features: [{name: X, levels: runtime, backends: OpenCL}]",
            "feature X: backends has 'OpenCL'; CUDA, ROCm or both are wanted",
        ),
        (
            "features: [{name: X, levels: runtime, since: {gfx908: late}}]",
            "feature X: gfx908 is 'late'; a version such as 580.65.06 is wanted",
        ),
        (
            "stacks: [{backend: CUDA, version: new}]",
            "stack CUDA new: version is 'new'; a version such as 580.65.06 is wanted",
        ),
        (
            "stacks: [{backend: ROCm, version: 7.2, forwardDrivers: [535, all]}]",
            "stack ROCm 7.2: forwardDrivers has 'all'; versions such as 580.65.06 are wanted",
        ),
        (
            "runtimes: [{name: x, image: i, backend: ROCm, backendVersion: 7.2, framework: {name: pytorch, version: 2.9},"
            " architectures: [gfx942], driverWindow: {min: 6.16, max: 6.12}}]",
            "runtime x: driverWindow.max 6.12 is older than driverWindow.min 6.16",
        ),
        (
            "runtimes: [{name: x, image: i, backend: CUDA, backendVersion: 13.0, framework: {name: pytorch, version: 2.9},"
            " architectures: [9.0], driverWindow: {min: 580}}]",
            "runtime x: driverWindow is of the amdgpu module, which a CUDA image does not use; write minDriver",
        ),
        (
            "accelerators: [{id: X, name: X, architecture: gfx942, product: Y}]",
            "accelerator X: there is no field product; did you mean products?",
        ),
        (
            "accelerators: [{id: X, name: X, architecture: gfx942, support: maybe}]",
            "accelerator X: support is 'maybe'; one of production, limited, unsupported is wanted",
        ),
        ("accelerators: [X]", "accelerator without a name is a word; a table of fields is wanted"),
        ("features: [{name: X, levels: pool}]", "feature X: levels must be accelerator, runtime or both"),
        (
            "prices: [{cloud: c, region: r, perNodeHour: {p9: 1}}]",
            "prices of c r: p9 is no known instance type; add it to instanceTypes",
        ),
        (
            "prices: [{cloud: c, region: r, perGPUHour: {X: cheap}}]",
            "prices of c r: the price of X is wrong: 'cheap' is not a price in US dollars between 0 and 100000; "
            'write a decimal in quotes, such as "2.10"',
        ),
        (
            "instanceTypes: [{cloud: c, accelerator: X, devices: {m: 0}}]",
            "instance types of c X: m is '0'; a positive whole number is wanted",
        ),
    ],
)
def test_wrong_rows_of_other_sections(text: str, sentence: str) -> None:
    assert only_refused(read_catalog(text)) == sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "the catalog is empty; "),
        ("# nothing\n", "the catalog is empty; "),
        ("just words", "the catalog is no table of sections, "),
        ("{a: [", "the catalog is neither YAML nor JSON at line "),
        ("a: b: c", "the catalog is neither YAML nor JSON at line 1: "),
        ("runtime: []", "the catalog has no section runtime; did you mean runtimes?"),
        ("xyz: []", "the catalog has no section xyz; the sections are accelerators, "),
        ("runtimes: {a: b}", "section runtimes of the catalog is no list of rows"),
    ],
)
def test_what_cannot_be_read_at_all_is_bad_input(text: str, sentence: str) -> None:
    with pytest.raises(BadInput) as error:
        read_catalog(text)
    assert str(error.value).startswith(sentence)


def test_an_admins_runtime_replaces_the_row_of_its_name() -> None:
    spec = GPURuntimeSpec.model_validate(
        {
            "image": "reg.example/ours",
            "backend": "ROCm",
            "backendVersion": "10.0",
            "framework": {"name": "pytorch", "version": "2.13.0"},
            "architectures": ["gfx942"],
            "preference": 100,
        }
    )
    extra = [runtime_of("rocm10.0-py3.12-pytorch-2.13.0", spec), runtime_of("ours", spec)]
    catalog = SHIPPED.with_runtimes(extra)
    assert len(catalog.runtimes) == len(SHIPPED.runtimes) + 1
    assert [row.name for row in catalog.runtimes[:2]] == ["ours", "rocm10.0-py3.12-pytorch-2.13.0"]
    assert catalog.prices is SHIPPED.prices
    assert "ours" not in {row.name for row in SHIPPED.runtimes}


def test_an_object_that_contradicts_itself_raises_with_one_sentence() -> None:
    spec = GPURuntimeSpec.model_validate(
        {
            "image": "a",
            "backend": "CUDA",
            "backendVersion": "13.0",
            "framework": {"name": "pytorch", "version": "2.14.1"},
            "architectures": ["gfx942"],
        }
    )
    with pytest.raises(CatalogInvalid, match="architectures has gfx942, but backend is CUDA"):
        runtime_of("wrong", spec)
