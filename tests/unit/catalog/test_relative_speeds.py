"""How fast accelerators are on a kind of work: measured where somebody measured, else scaled and called an estimate."""

from __future__ import annotations

import json
from datetime import date
from statistics import median

import pytest

from gpujob.catalog.load import load_catalog, read_catalog
from gpujob.catalog.records import Accelerator
from gpujob.catalog.throughput import MILLION, REFERENCE, Speed, Speeds, Work, peak, roofline, work_of
from gpujob.vocabulary import Evidence, Method, Precision, WorkKind

CATALOG = load_catalog()
TRAINING, FINE_TUNING, INFERENCE = (Work(kind) for kind in WorkKind)
ROWS = CATALOG.throughputs


def speed(accelerator: str, work: Work = TRAINING) -> Speed:
    found = CATALOG.speed(accelerator, work)
    assert found is not None
    return found


def model(name: str) -> Accelerator:
    found = CATALOG.accelerator(name)
    assert found is not None
    return found


def test_every_row_names_a_known_accelerator_a_source_and_a_day() -> None:
    assert ROWS
    for row in ROWS:
        assert CATALOG.accelerator(row.accelerator) is not None, row
        assert row.source
        assert date.fromisoformat(row.checked_on)


def test_no_row_is_a_vendor_s_claim_and_the_reference_is_audited_in_every_kind_of_work() -> None:
    assert Evidence.CLAIMED not in {row.evidence for row in ROWS}
    audited = {row.work for row in ROWS if row.accelerator == REFERENCE and row.evidence is Evidence.AUDITED}
    assert audited == set(WorkKind)


def test_every_row_leads_to_a_speed() -> None:
    for row in ROWS:
        assert not speed(row.accelerator, Work(row.work)).estimate, row


@pytest.mark.parametrize(
    ("accelerator", "work", "relative", "estimate"),
    [
        ("B200", TRAINING, 1, False),
        ("MI355X", TRAINING, 29449 / 35087, False),
        ("H100-SXM", TRAINING, 10658 / 21017, False),
        ("MI300X", TRAINING, 0.74 * 11225 / 21017, False),
        ("MI355X", FINE_TUNING, 5295 / 5543, False),
        ("MI300X", FINE_TUNING, 1907 / 5543, False),
        ("H200", FINE_TUNING, 2312 / 5543, False),
        ("H200", INFERENCE, 4351.5 / 12690.9, False),
        # Not measured in training, but in fine-tuning.
        ("MI325X", TRAINING, 2544 / 5543, True),
        # Not measured at all: a roofline from the nearest that was.
        ("A100-80GB", TRAINING, 0.192, True),
        ("L4", TRAINING, 0.063, True),
        ("T4", INFERENCE, 0.0189, True),
    ],
)
def test_speeds(accelerator: str, work: Work, relative: float, estimate: bool) -> None:
    found = speed(accelerator, work)
    assert found.millionths / MILLION == pytest.approx(relative, rel=0.02)
    assert found.estimate is estimate
    assert found.source.startswith("estimate: ") is estimate


def test_a_source_says_what_ran_in_which_format_who_says_so_and_when() -> None:
    assert speed("MI300X", FINE_TUNING).source == (
        "llama2-70b LoRA, 8 GPUs, FP8 (MLPerf Training v5.1 result logs, mlcommons/training_results_v5.1, "
        "median over systems, 2025-11-12)"
    )
    assert speed("A100-80GB").source.startswith(
        "estimate: 0.69 × RTX-PRO-6000 by dense TFLOPS and bandwidth; RTX-PRO-6000: "
    )


def test_a_method_is_a_kind_of_work() -> None:
    found = {method: work_of(method, Precision.BF16) for method in Method}
    assert [work.kind for work in found.values()] == [
        WorkKind.TRAINING, WorkKind.FINE_TUNING, WorkKind.FINE_TUNING, WorkKind.INFERENCE
    ]  # fmt: skip
    # Asked for by name, BF16 is emulated on a T4; unasked, FP16 does.
    assert speed("T4", TRAINING).millionths > 5 * speed("T4", found[Method.FULL]).millionths


def test_what_has_no_figures_has_no_speed() -> None:
    for name in ("MI455X", "W7800", "RTX-PRO-4500", "GB10", "nothing"):
        assert CATALOG.speed(name, TRAINING) is None


def test_a_format_that_a_device_lacks_runs_in_the_next() -> None:
    assert peak(model("H100-SXM"), Precision.FP8) == 1979
    assert peak(model("H200-NVL"), Precision.FP8) == 2 * 836
    assert peak(model("A100-80GB"), Precision.FP8) == 312
    assert peak(model("T4"), Precision.MIXED) == peak(model("T4"), Precision.FP16) == 65
    assert peak(model("T4"), Precision.BF16) == pytest.approx(8.1, rel=0.01)
    assert peak(model("V100-32GB"), Precision.BF16) == pytest.approx(15.7, rel=0.01)
    assert peak(model("MI455X"), Precision.BF16) is None


def test_a_roofline_is_between_the_two_ratios() -> None:
    for share in (0, 0.3, 0.8, 1):
        found = roofline(model("MI325X"), model("MI300X"), Precision.BF16, share)
        assert found is not None
        assert 1 <= found <= 6000 / 5300 + 1e-9


def test_parts_of_one_architecture_are_in_the_order_of_their_figures() -> None:
    for work in (TRAINING, FINE_TUNING, INFERENCE):
        for faster, slower in [("H200", "H100-SXM"), ("H100-SXM", "H100-PCIe"), ("MI325X", "MI300X"), ("MI355X", "MI350X"),
                               ("GB300", "B300"), ("A100-80GB", "A100-40GB"), ("A10", "A10G")]:  # fmt: skip
            assert speed(faster, work).millionths > speed(slower, work).millionths, (faster, slower, work)


@pytest.mark.parametrize(
    ("kind", "middle", "worst"),
    [(WorkKind.TRAINING, 0.06, 0.23), (WorkKind.FINE_TUNING, 0.125, 0.47), (WorkKind.INFERENCE, 0.135, 1.06)],
)
def test_the_error_of_an_estimate_is_known(kind: WorkKind, middle: float, worst: float) -> None:
    """The median and the largest error where each measured accelerator is estimated from the others."""
    speeds = Speeds(ROWS, CATALOG.accelerators)
    errors = []
    for name in sorted({row.accelerator for row in ROWS if row.work is kind}):
        guess, truth = speeds.estimated(model(name), Work(kind, Precision.FP8)), speed(name, Work(kind)).millionths
        assert guess is not None
        errors.append(abs(guess.millionths / truth - 1))
    assert median(errors) == pytest.approx(middle, abs=0.01)
    assert max(errors) == pytest.approx(worst, abs=0.02)


def test_a_file_can_say_what_was_measured_here() -> None:
    group = {
        "benchmark": "ours", "work": "Training", "precision": "BF16", "evidence": "Measured", "unit": "tokens/s",
        "source": "our runs", "checkedOn": "2026-11-01", "perGPU": {"B200": 100, "MI210": 25, "W7800": 5},
    }  # fmt: skip
    own = read_catalog(json.dumps({"throughputs": [group, {**group, "benchmark": "bad", "work": "Sleep"}]}))
    assert own.refused == (
        ("throughputs row 2", "throughputs of bad: work is 'Sleep'; one of Training, FineTuning, Inference is wanted"),
    )
    found = own.speed("W7800", TRAINING)
    assert found == Speed(50_000, False, "ours, BF16 (our runs, 2026-11-01)", "2026-11-01")
    scaled = own.speed("MI250", TRAINING)
    assert scaled is not None
    assert scaled.source.startswith("estimate: 1.00 × MI210 by dense TFLOPS and bandwidth")


def test_better_evidence_places_an_accelerator_whatever_the_order_of_the_file() -> None:
    group = {"work": "Training", "precision": "BF16", "unit": "tokens/s", "source": "x", "checkedOn": "2026-11-01"}
    own = read_catalog(json.dumps({"throughputs": [
        {**group, "benchmark": "claim", "evidence": "Claimed", "perGPU": {"B200": 100, "MI355X": 116}},
        {**group, "benchmark": "audit", "evidence": "Audited", "perGPU": {"B200": 10, "MI355X": 8}},
        {**group, "benchmark": "island", "evidence": "Audited", "perGPU": {"T4": 1, "L4": 2}},
    ]}))  # fmt: skip
    found = own.speed("MI355X", TRAINING)
    assert found is not None
    assert found.millionths == 800_000
    island = own.speed("L4", TRAINING)
    assert island is not None
    assert island.estimate
