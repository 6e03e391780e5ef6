"""The device that is nearest to a name: by kinds of memory, machines, compute capabilities, and by what it lacks of the named one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import A100, ANY_IMAGES, H100, H200, L4, L40S, MI210, MI250X, MI300X, T4, Object, decision, fleet, node

from gpujob.catalog.files.load import load_catalog
from gpujob.placement.report.notes import notes
from gpujob.placement.scoring.candidate import Decision
from gpujob.placement.suggestions.search import with_fix
from tests.e2e.cluster.nodes import Amd, Nvidia

CATALOG = load_catalog()


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("h100_hbm3", ("H100-SXM",)),
        ("H100 HBM3", ("H100-SXM",)),
        ("nvidia-h100-hbm3-80gb", ("H100-SXM",)),
        # Labels have this kind of memory for no board of the model.
        ("a100-hbm2e", ("A100",)),
        ("p5.48xlarge", ("H100-SXM",)),
        ("P5EN.48xlarge", ("H200",)),
        ("Standard_ND96isr_MI300X_v5", ("MI300X",)),
        ("g6e.xlarge", ("L40S",)),
        # A family of machines, and a size that the catalog does not have.
        ("p4d", ("A100-40GB",)),
        ("g5.metal", ("A10G",)),
        ("p9.48xlarge", ()),
    ],
)
def test_names_of_memory_and_of_machines(word: str, near: tuple[str, ...]) -> None:
    assert CATALOG.nearest_accelerators(word) == near


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("9.0", ("H100-SXM", "H200")),
        ("sm_90", ("H100-SXM", "H200")),
        ("cc8.9", ("L4", "L40S")),
        ("compute_capability 7.5", ("T4",)),
        ("compute_75", ("T4",)),
        # Of no device of the cluster.
        ("10.0", ()),
    ],
)
def test_a_compute_capability_means_the_devices_that_have_it(word: str, near: tuple[str, ...]) -> None:
    devices = (H100, H200, L4, L40S, T4, MI300X)
    known = fleet(*(node(f"n{place}", gpu) for place, gpu in enumerate(devices)), catalog=ANY_IMAGES)
    assert known.nearest_accelerators(word, ANY_IMAGES) == near


def test_what_is_near_a_name_is_that_of_the_catalog_that_is_asked() -> None:
    known = fleet(node("n", MI300X), catalog=CATALOG)
    without = replace(CATALOG, accelerators=tuple(row for row in CATALOG.accelerators if not row.id.startswith("MI2")))
    assert [known.nearest_accelerators("MI25", each) for each in (CATALOG, without, CATALOG)] == [
        CATALOG.nearest_accelerators("MI25"),
        without.nearest_accelerators("MI25"),
        CATALOG.nearest_accelerators("MI25"),
    ]
    assert CATALOG.nearest_accelerators("MI25") != without.nearest_accelerators("MI25")


H20 = Nvidia("NVIDIA-H20", 97871, "hopper", (9, 0), mig=True)
A10G = Nvidia("NVIDIA-A10G", 23028, "ampere", (8, 6), mig=False)
A40 = Nvidia("NVIDIA-A40", 46068, "ampere", (8, 6), mig=False)


def fixed(word: str, *objects: Object, shape: bool = False) -> Decision:
    spec = {"shapes": [{"accelerator": word}]} if shape else {"placement": {"accelerators": {"allow": [word]}}}
    known = fleet(*objects, catalog=ANY_IMAGES)
    return with_fix(decision(*objects, catalog=ANY_IMAGES, **spec), known, ANY_IMAGES)


@pytest.mark.parametrize("shape", [False, True])
@pytest.mark.parametrize(
    ("word", "cheap", "near"),
    [
        # No device of its generation is there.
        ("B200", [L4], "H100-SXM"),
        ("MI355X", [MI210], "MI300X"),
        # The H20 has 0.15 of the products of a GH200.
        ("GH200-96GB", [H20, H100], "H200"),
        ("MI250", [MI210], "MI250X"),
        ("L40", [L4], "L40S"),
        ("A10", [A40, L4], "A10G"),
        ("MI325X", [MI210], "MI300X"),
    ],
)
def test_the_nearest_device_lacks_the_least_of_the_named_one(
    word: str, cheap: list[Amd | Nvidia], near: str, shape: bool
) -> None:
    devices = {"H100-SXM": H100, "H200": H200, "MI250X": MI250X, "L40S": L40S, "A10G": A10G, "MI300X": MI300X}
    others = [node(f"c{place}", gpu, price="0.50") for place, gpu in enumerate(cheap)]
    found = fixed(word, *others, node("n", devices[near], price="9"), shape=shape)
    assert found.fix is not None
    (change,) = found.fix.changes
    assert change.after == (near if shape else [word, near])


H100_NVL = Nvidia("NVIDIA-H100-NVL", 95830, "hopper", (9, 0), mig=True)


@pytest.mark.parametrize(
    ("word", "gpu", "said"),
    [
        ("H100-96GB", H100_NVL, ["H100-96GB is taken as H100-NVL, which is sold with 94 GB"]),
        ("H100-94GB", H100_NVL, []),
        ("H200 144GB", H200, ["H200 144GB is taken as H200, which is sold with 141 GB"]),
        ("L40S 46GB", L40S, ["L40S 46GB is taken as L40S, which is sold with 48 GB"]),
        ("H100 80GB", H100, []),
        ("H100", H100, []),
    ],
)
def test_a_size_that_is_nearly_that_of_the_device_is_said(word: str, gpu: Nvidia, said: list[str]) -> None:
    found = decision(node("n", gpu), catalog=ANY_IMAGES, placement={"accelerators": {"allow": [word]}})
    assert found.choice is not None
    assert list(notes(found)) == said


A100_PCIE = Nvidia("NVIDIA-A100-PCIE-40GB", 40960, "ampere", (8, 0), mig=True)


@pytest.mark.parametrize(
    ("word", "gpu", "said"),
    [
        ("A100-SXM", A100_PCIE, True),
        ("a100 sxm4", A100_PCIE, True),
        ("NVIDIA-A100-SXM4-40GB", A100_PCIE, True),
        ("A100-PCIe", A100, True),
        ("A100", A100_PCIE, False),
        ("A100-40GB", A100_PCIE, False),
        # Boards with rows of their own.
        ("H100-SXM", H100, False),
        ("H200-SXM", H200, False),
        ("H100-NVL", H100_NVL, False),
    ],
)
def test_a_board_that_the_catalog_does_not_tell_from_another_is_said(word: str, gpu: Nvidia, said: bool) -> None:
    for spec in (
        {"placement": {"accelerators": {"allow": [word]}}},
        {"shapes": [{"accelerator": word, "gpusPerNode": 1}]},
    ):
        found = decision(node("n", gpu), catalog=CATALOG, **spec)
        assert found.choice is not None
        name = found.choice.candidate.pool.accelerator_id
        note = f"{word} is taken as {name}, of which the catalog has one row for its boards PCIe and SXM"
        assert list(notes(found)) == [note] * said


MI300A = Amd("74a0", "AMD_Instinct_MI300A", 128, 228)


@pytest.mark.parametrize(
    "asked",
    [
        {"placement": {"accelerators": {"allow": ["MI300A"]}}},
        {"placement": {"accelerators": {"allow": ["mi300a"]}, "objective": "Cost"}, "gpuMemory": "60G"},
        {"shapes": [{"accelerator": "MI300A", "gpusPerNode": 2}]},
    ],
)
@pytest.mark.parametrize("other", [MI300X, H100])
def test_the_device_that_a_job_names_is_nearer_than_another_model(asked: Object, other: Amd | Nvidia) -> None:
    objects = [node("apu", MI300A, 4, price="2.50"), node("other", other, price="1.00")]
    known = fleet(*objects, catalog=CATALOG)
    fix = with_fix(decision(*objects, catalog=CATALOG, **asked), known, CATALOG).fix
    assert fix is not None
    assert [(change.field, change.after) for change in fix.changes] == [
        ("spec.placement.devices", ["Integrated", "Whole"])
    ]
    assert fix.pool == "mi300a-ondemand"


@pytest.mark.parametrize(
    ("word", "there", "allow"),
    [
        # No node has what the name means: the nearest to it of the same vendor is added, not any device allowed.
        ("4090", (L40S, A100, MI300X), ["4090", "L40S"]),
        ("7900xtx", (T4, MI210, A100), ["7900xtx", "MI210"]),
        ("3090", (T4, A100, MI300X), ["3090", "A100-80GB"]),
    ],
)
def test_a_name_of_a_device_that_is_not_there(word: str, there: tuple[Amd | Nvidia, ...], allow: list[str]) -> None:
    nodes = [node(f"n{number}", gpu) for number, gpu in enumerate(there)]
    found = decision(*nodes, catalog=CATALOG, placement={"accelerators": {"allow": [word]}})
    fix = with_fix(found, fleet(*nodes, catalog=CATALOG), CATALOG).fix
    assert fix is not None
    assert [each.after for each in fix.changes] == [allow]
