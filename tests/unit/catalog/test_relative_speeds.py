"""How fast accelerators are on a kind of work: the roofline at the job's number format times the efficiency of all runs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from operator import ge
from statistics import median

import pytest

from bench.speeds.left_out import Fits, Miss, leaning, misses, spread, typical
from bench.speeds.pairs import Pair, pairs
from gpujob.catalog.devices.data_sheet_order import contradicted, is_of_line
from gpujob.catalog.devices.efficiency import Key, bridge
from gpujob.catalog.devices.efficiency_fit import chip_of, efficiencies
from gpujob.catalog.devices.roofline import COMPUTE_SHARE, FORMATS, REFERENCE, has_roofline, is_narrow, peak, roofline
from gpujob.catalog.devices.throughput import KINDS as KIND_OF_METHOD
from gpujob.catalog.devices.throughput import MILLION, Speed, Work, work_of
from gpujob.catalog.entities import Accelerator
from gpujob.catalog.files.load import load_catalog, read_catalog
from gpujob.values.vocabulary import Method, Precision, RunFormat, WorkKind

CATALOG = load_catalog()
TRAINING, FINE_TUNING, INFERENCE = (Work(kind) for kind in WorkKind)
ROWS = CATALOG.throughputs
ROOFED = [each for each in CATALOG.accelerators if has_roofline(each)]
KINDS = pytest.mark.parametrize("kind", list(WorkKind))
OURS = {
    "benchmark": "ours", "work": "Training", "format": "BF16", "engine": "PyTorch", "evidence": "Measured",
    "unit": "tokens/s", "source": "our runs", "checkedOn": "2026-11-01",
}  # fmt: skip


def speed(accelerator: str, work: Work = TRAINING) -> Speed:
    found = CATALOG.speed(accelerator, work)
    assert found is not None
    return found


def ratio(one: str, other: str, kind: WorkKind, precision: Precision = Precision.BF16) -> float:
    work = Work(kind, precision)
    return speed(one, work).millionths / speed(other, work).millionths


def model(name: str) -> Accelerator:
    found = CATALOG.accelerator(name)
    assert found is not None
    return found


def test_every_row_names_a_known_accelerator_an_engine_a_source_and_a_day() -> None:
    assert len(ROWS) > 150
    for row in ROWS:
        assert CATALOG.accelerator(row.accelerator) is not None, row
        assert row.source
        assert row.engine, row
        assert row.devices >= 1
        assert date.fromisoformat(row.checked_on)
        assert roofline(model(row.accelerator), row.work, row.format), row


def test_the_reference_ran_beside_the_most_others() -> None:
    beside: dict[str, set[str]] = {}
    for row in ROWS:
        group = [each for each in ROWS if (each.benchmark, each.devices) == (row.benchmark, row.devices)]
        beside.setdefault(row.accelerator, set()).update(each.accelerator for each in group)
    assert max(beside, key=lambda name: len(beside[name])) == REFERENCE


ORDER = [
    # faster, slower, at least, at most
    ("RTX-3090", "L4", 1.0, 3.0),
    ("A10G", "L4", 1.0, 2.0),
    ("H20", "A30", 1.0, 2.0),
    ("GB300", "B300", 1.0, 1.2),
    ("H100-SXM", "A100-80GB", 1.7, 2.4),
    ("H100-SXM", "RTX-PRO-6000", 1 / 0.65, 3.0),
    ("B200", "H200", 1.2, 2.3),
    ("H200", "H100-SXM", 1.0, 1.5),
    ("MI300X", "A100-80GB", 1.0, 3.0),
    ("MI355X", "MI300X", 1.5, 4.0),
    ("MI355X", "B200", 0.85, 1.3),
    ("MI325X", "MI300X", 1.0, 1.5),
    ("A100-80GB", "A100-40GB", 1.0, 1.5),
    ("A100-40GB", "A30", 1.2, 2.5),
    ("L40S", "L4", 1.5, 5.0),
    ("B200", "MI300X", 1.2, 3.5),
    ("A100-40GB", "V100-16GB", 1.5, 4.0),
    ("MI250", "MI100", 1.0, 3.0),
    ("RTX-5090", "RTX-4090", 1.2, 1.7),
    ("RTX-4090", "RTX-3090", 1.2, 2.2),
    ("RTX-6000-Ada", "L40S", 1.0, 1.3),
    ("L40S", "L40", 1.0, 2.0),
    ("RTX-5090", "L40", 1.0, 2.0),
    ("H200-NVL", "H100-NVL", 1.0, 1.5),
]
"""What must hold in 16 bits: by the data sheets, by public comparisons that are no rows here, or since the two are one silicon."""


@KINDS
@pytest.mark.parametrize(("faster", "slower", "least", "most"), ORDER)
def test_the_order_that_must_hold(faster: str, slower: str, least: float, most: float, kind: WorkKind) -> None:
    # A V100 has no BF16: a job that may choose does not compute in it there.
    precision = Precision.MIXED if "V100" in slower else Precision.BF16
    assert least <= ratio(faster, slower, kind, precision) <= most


@KINDS
def test_an_mi100_is_faster_than_a_t4(kind: WorkKind) -> None:
    assert ratio("MI100", "T4", kind, Precision.MIXED) > 1
    assert ratio("MI100", "T4", kind, Precision.FP16) > 1


EXCEPTIONS: dict[tuple[str, str], str] = {}
"""Larger parts that are slower, with the rows of both that say so beyond their errors."""


@pytest.mark.parametrize("precision", list(Precision))
@KINDS
def test_more_compute_and_more_bandwidth_are_never_slower_in_one_line(kind: WorkKind, precision: Precision) -> None:
    """All pairs of the catalog, at every batch."""
    compared = 0
    for share in (None, *range(0, 45, 5)) if kind is WorkKind.INFERENCE else (None,):
        work, run = Work(kind, precision, share), FORMATS.get(precision)
        known = [(each, peak(each, run) or 0, found) for each in ROOFED if (found := CATALOG.speed(each.id, work))]
        for one, most, fast in known:
            for other, less, slow in known:
                figures = (most, one.bandwidth_gb_s or 0), (less, other.bandwidth_gb_s or 0)
                if one is other or not all(map(ge, *figures)) or not is_of_line(one, other):
                    continue
                # A part without 8 bits reads twice as much in them.
                if is_narrow(other, run) and not is_narrow(one, run):
                    continue
                compared += 1
                assert (one.id, other.id) in EXCEPTIONS or fast.millionths >= slow.millionths, (share, one.id, other.id)
    assert compared > 200


def test_what_the_rows_contradict_is_listed() -> None:
    against = contradicted(CATALOG.efficiencies, CATALOG.accelerators)
    assert {(one.accelerator, other.accelerator) for one, other in against} == EXCEPTIONS.keys()


def test_rows_of_both_parts_keep_a_larger_part_behind() -> None:
    """Five programs of our own on which an L40 does three times what an L40S does: it stays so, and nothing else is out of order."""
    group = {**OURS, "perGPU": {"H100-SXM": 100, "L40": 60, "L40S": 20}}
    own = read_catalog(json.dumps({"throughputs": [{**group, "benchmark": f"ours {n}"} for n in range(5)]}))
    slow, fast = own.speed("L40S", TRAINING), own.speed("L40", TRAINING)
    assert slow is not None
    assert fast is not None
    assert fast.millionths > 1.5 * slow.millionths
    found = contradicted(own.efficiencies, CATALOG.accelerators)
    assert {(one.accelerator, other.accelerator) for one, other in found} == {("L40S", "L40")}


@KINDS
def test_variants_of_one_chip_have_one_speed(kind: WorkKind) -> None:
    same = 0
    for one in ROOFED:
        for other in ROOFED:
            if one.id < other.id and chip_of(one) == chip_of(other):
                same += 1
                for precision in Precision:
                    first, second = (speed(each.id, Work(kind, precision)) for each in (one, other))
                    assert (first.millionths, first.error, first.source) == (
                        second.millionths,
                        second.error,
                        second.source,
                    )
    assert same >= 2
    assert chip_of(model("V100-16GB")) == chip_of(model("V100-32GB"))
    assert chip_of(model("T4")) == chip_of(model("T4G"))
    assert chip_of(model("A100-40GB")) != chip_of(model("A100-80GB"))


def serving(sequences: int | None, precision: Precision = Precision.BF16) -> Work:
    return work_of(Method.INFERENCE, precision, sequences)


@pytest.mark.parametrize(("sequences", "percent"), [(1, 0), (4, 5), (16, 10), (32, 20), (64, 30), (98, 40), (4096, 40)])
def test_the_batch_says_how_much_of_the_time_products_bound(sequences: int, percent: int) -> None:
    assert serving(sequences).share == percent


def test_a_job_without_a_batch_is_measured_runs_work_and_training_has_none() -> None:
    assert serving(None) == Work(WorkKind.INFERENCE, Precision.BF16)
    assert work_of(Method.FULL, Precision.BF16, 1) == Work(WorkKind.TRAINING, Precision.BF16)
    assert work_of(Method.QLORA, Precision.BF16, 1) == Work(WorkKind.FINE_TUNING, Precision.BF16)


@pytest.mark.parametrize("sequences", [1, 4, 8, 16])
@pytest.mark.parametrize("other", ["A100-80GB", "A30", "L40S", "RTX-4090", "RTX-PRO-6000"])
def test_few_sequences_go_by_bandwidth(other: str, sequences: int) -> None:
    """An H20 has 4.0 TB/s and 148 TFLOPS: it is ahead of parts with half of one and twice the other."""
    work = serving(sequences)
    assert speed("H20", work).millionths > speed(other, work).millionths


@pytest.mark.parametrize(
    ("one", "other", "published"),
    [
        # Ollama, one stream of Llama 3.1 8B, Qwen 2.5 1.5B and Phi 3.5: nikolasent.github.io of 2025-02-17. Only the first is a row.
        ("RTX-5090", "RTX-4090", 1.73), ("RTX-5090", "RTX-4090", 1.87), ("RTX-5090", "RTX-4090", 1.60), ("RTX-4090", "RTX-3090", 1.26),
        # vLLM, one stream of an 8B model: alpharomercoma/MI300X-vs-H200.
        ("MI300X", "H200", 0.98),
    ],
)  # fmt: skip
def test_one_sequence_is_as_fast_as_was_measured(one: str, other: str, published: float) -> None:
    found = speed(one, serving(1)).millionths / speed(other, serving(1)).millionths
    assert found == pytest.approx(published, rel=0.15)


def test_more_sequences_bring_the_speed_to_that_of_full_batches() -> None:
    for name in ("H20", "A100-80GB", "RTX-3090", "B200", "MI300X"):
        found = [speed(name, serving(n)).millionths for n in (1, 8, 16, 32, 64, 98)]
        assert found == sorted(found, reverse=found[0] > found[-1]), name
        assert found[-1] == pytest.approx(speed(name, serving(None)).millionths, rel=1e-6)


def test_a_job_that_is_bound_by_memory_says_so() -> None:
    assert speed("H20", serving(16)).roofline == (
        "roofline 0.70 of an H100-SXM's: 148 dense TFLOPS, 4000 GB/s, memory bounds 53 % of the time"
    )
    assert "memory bounds" not in speed("H20", serving(None)).roofline


def test_the_further_from_what_was_measured_the_larger_the_error() -> None:
    # All of one architecture, in the order of how far their balance is from the H100's, whose rows they are taken from.
    errors = [speed(name, INFERENCE).error for name in ("H200", "GH200-96GB", "H20")]
    assert errors == sorted(errors)
    assert speed("H20").error >= 20
    # At another batch than that of the runs.
    for name in ("A100-80GB", "L4", "MI300X"):
        assert speed(name, serving(1)).error > speed(name, serving(16)).error > speed(name, INFERENCE).error


@pytest.fixture(scope="module")
def fits() -> Fits:
    """The fits without one accelerator or benchmark."""
    return Fits(CATALOG)


@pytest.fixture(scope="module")
def missed(fits: Fits) -> list[Miss]:
    """How far off each accelerator is where it is left out."""
    return misses(fits)


@pytest.mark.parametrize(("name", "count", "middle", "worst"), [("old", 19, 0.110, 0.32), ("new", 56, 0.068, 0.30)])
def test_the_error_of_what_was_never_measured_is_known(
    missed: list[Miss], name: str, count: int, middle: float, worst: float
) -> None:
    """The median and the largest error where each accelerator is left out; docs/decisions/0005 has the same figures."""
    found = [each for each in missed if each.is_old == (name == "old")]
    assert len(found) == count
    assert typical(found) == pytest.approx(middle, abs=0.005)
    assert max(abs(each.off) for each in found) == pytest.approx(worst, abs=0.01)


def test_the_errors_that_are_told_are_the_errors_that_are_made(missed: list[Miss]) -> None:
    assert 0.5 < spread(missed) < 1.1
    assert spread([each for each in missed if each.is_old]) < 1.1
    # Two thirds of normal errors are within one standard error.
    within = sum(abs(each.off) <= each.told for each in missed) / len(missed)
    assert within > 0.65


@pytest.mark.parametrize(
    ("is_old", "before", "before_left_out", "left_out", "new_benchmark"),
    [(True, 0.246, 0.246, 0.156, 0.127), (False, 0.325, 0.316, 0.179, 0.133)],
)
def test_ratios_of_public_runs_are_nearer_than_by_the_first_version(
    fits: Fits, is_old: bool, before: float, before_left_out: float, left_out: float, new_benchmark: float
) -> None:
    """One measure before and now, in 16 bits; docs/decisions/0005 has the same figures."""
    some = [pair for pair in pairs(fits) if pair.is_old is is_old]

    def middle(of: Callable[[Pair], float]) -> float:
        return median(abs(of(pair)) for pair in some)

    assert len(some) == (317 if is_old else 261)
    assert middle(lambda pair: pair.first_version) == pytest.approx(before, abs=0.005)
    assert middle(lambda pair: pair.first_version_left_out) == pytest.approx(before_left_out, abs=0.005)
    assert middle(lambda pair: pair.left_out) == pytest.approx(left_out, abs=0.005)
    assert middle(lambda pair: pair.new_benchmark) == pytest.approx(new_benchmark, abs=0.005)


def test_no_vendor_s_rows_are_more_optimistic_than_the_other_s(fits: Fits) -> None:
    mean, error = leaning(fits)
    assert abs(mean) <= error


def test_rows_below_16_bits_say_less_of_16_bits_than_rows_in_them() -> None:
    """Left with its FP8 and FP4 rows alone, a B200 is known less well in 16 bits than with its own there."""
    wide = Key(WorkKind.INFERENCE, False, model("B200").architecture, "B200")
    narrow_rows = [
        row for row in ROWS if row.accelerator != "B200" or row.format not in (RunFormat.BF16, RunFormat.FP16)
    ]
    without = efficiencies(narrow_rows, CATALOG.accelerators)
    assert CATALOG.efficiencies[wide].error < 0.75 * without[wide].error
    assert without[wide].runs == 0


def test_another_engine_says_less_than_the_same_one() -> None:
    """A rival's figure moves an efficiency less where another program made it."""
    rows = [row for row in ROWS if row.accelerator != "MI300X"]
    fast = next(row for row in ROWS if row.accelerator == "H200" and row.engine == "vLLM")
    rival = replace(fast, accelerator="MI300X", per_gpu=fast.per_gpu * 3)
    key = Key(fast.work, False, model("MI300X").architecture, "MI300X")
    same = efficiencies([*rows, rival], CATALOG.accelerators)[key]
    other = efficiencies([*rows, replace(rival, engine="another")], CATALOG.accelerators)[key]
    assert other.share < same.share
    assert other.error > same.error


@KINDS
def test_the_reference_is_at_one_in_every_format(kind: WorkKind) -> None:
    for precision in Precision:
        found = speed(REFERENCE, Work(kind, precision))
        assert (found.millionths, found.error) == (MILLION, 0)


def test_the_figures_of_the_catalog_are_made_of_its_rows() -> None:
    made = efficiencies(ROWS, CATALOG.accelerators)
    assert made.keys() == CATALOG.efficiencies.keys()
    for key, each in made.items():
        assert CATALOG.efficiencies[key].share == pytest.approx(each.share, rel=1e-3)
        assert CATALOG.efficiencies[key].runs == each.runs


def test_a_speed_is_explained_by_roofline_and_efficiency() -> None:
    found = speed("L40S", INFERENCE)
    assert found.roofline == "roofline 0.29 of an H100-SXM's: 362 dense TFLOPS, 864 GB/s"
    assert found.source.startswith(
        "efficiency 1.2 of an H100-SXM's, ± 11 %, from 2 runs (GPT-J offline, v4.1; Llama3.1-8B offline, v5.1: "
    )
    # It was not measured in 16 bits.
    assert found.estimate
    assert not speed("L40S", Work(WorkKind.INFERENCE, Precision.FP8)).estimate
    assert speed("MI100").source.endswith("from no run of MI100, the prior")
    assert speed("H20").source.startswith("efficiency 0.99 of an H100-SXM's, ± 24 %, from no run of H20, ")


def test_what_was_never_measured_has_a_larger_error_than_what_was() -> None:
    assert speed("H20").error > speed("H200").error
    assert speed("MI100").error > speed("MI250").error
    assert speed("W7900").error > 20


def test_a_job_in_8_bits_takes_the_8_bit_roofline_where_there_is_one() -> None:
    """An A100 computes it in 16 bits, so an H100 is further ahead than in 16."""
    assert ratio("H100-SXM", "A100-80GB", WorkKind.INFERENCE, Precision.FP8) > 1.5 * ratio(
        "H100-SXM", "A100-80GB", WorkKind.INFERENCE
    )
    assert ratio("MI355X", "H100-SXM", WorkKind.INFERENCE, Precision.FP8) > 1.5
    between = CATALOG.efficiencies[bridge(WorkKind.TRAINING)]
    # MosaicML's H100 is 1.31 times as fast in FP8, where its roofline is 1.29 times as high.
    assert 0.9 < between.share < 1.2


def test_32_bits_without_tf32_are_slow() -> None:
    assert ratio("A100-80GB", "V100-32GB", WorkKind.TRAINING, Precision.FP32) > ratio(
        "A100-80GB", "V100-32GB", WorkKind.TRAINING, Precision.MIXED
    )


def test_a_method_is_a_kind_of_work() -> None:
    found = {method: Work(KIND_OF_METHOD[method], Precision.BF16) for method in Method}
    assert [work.kind for work in found.values()] == [
        WorkKind.TRAINING, WorkKind.FINE_TUNING, WorkKind.FINE_TUNING, WorkKind.INFERENCE
    ]  # fmt: skip
    # Asked for by name, BF16 is emulated on a T4; unasked, FP16 does.
    assert speed("T4", TRAINING).millionths > 3 * speed("T4", found[Method.FULL]).millionths


def test_what_has_no_figures_has_no_speed() -> None:
    for name in ("MI455X", "W7800", "RTX-PRO-4500", "GB10", "nothing"):
        assert CATALOG.speed(name, TRAINING) is None


def test_a_format_that_a_device_lacks_runs_in_the_next() -> None:
    assert peak(model("H100-SXM"), RunFormat.FP8) == 1979
    assert peak(model("H200-NVL"), RunFormat.FP8) == 2 * 836
    assert peak(model("A100-80GB"), RunFormat.FP8) == 312
    assert peak(model("B200"), RunFormat.FP4) == 9000
    assert peak(model("H100-SXM"), RunFormat.FP4) == 989
    assert peak(model("T4"), None) == peak(model("T4"), RunFormat.FP16) == 65
    assert peak(model("T4"), RunFormat.INT8) == 130
    assert peak(model("T4"), RunFormat.BF16) == pytest.approx(8.1, rel=0.01)
    assert peak(model("T4"), RunFormat.FP32) == pytest.approx(8.1, rel=0.01)
    assert peak(model("V100-32GB"), RunFormat.BF16) == pytest.approx(15.7, rel=0.01)
    assert peak(model("A100-80GB"), RunFormat.FP32) == 156
    assert peak(model("MI455X"), RunFormat.BF16) is None
    assert is_narrow(model("H100-SXM"), RunFormat.FP8)
    assert not is_narrow(model("A100-80GB"), RunFormat.FP8)
    assert not is_narrow(model("H100-SXM"), None)


@KINDS
def test_a_roofline_is_between_the_two_ratios(kind: WorkKind) -> None:
    one, other = (roofline(model(name), kind, RunFormat.BF16) for name in ("MI325X", "MI300X"))
    assert one is not None
    assert other is not None
    assert 1 <= one / other <= 6000 / 5300
    assert 0 < COMPUTE_SHARE[kind] < 1


@KINDS
def test_parts_of_one_architecture_are_in_the_order_of_their_figures(kind: WorkKind) -> None:
    for faster, slower in [("H200", "H100-SXM"), ("H100-SXM", "H100-PCIe"), ("MI325X", "MI300X"), ("MI355X", "MI350X"),
                           ("GB300", "B300"), ("A100-80GB", "A100-40GB"), ("A10", "A10G")]:  # fmt: skip
        assert ratio(faster, slower, kind) > 1, (faster, slower)


def test_a_file_can_say_what_was_measured_here() -> None:
    group = {**OURS, "perGPU": {"H100-SXM": 100, "MI210": 50}}
    own = read_catalog(json.dumps({"throughputs": [group, {**group, "benchmark": "bad", "work": "Sleep"}]}))
    assert own.refused == (
        ("throughputs row 2", "throughputs of bad: work is 'Sleep'; one of Training, FineTuning, Inference is wanted"),
    )
    found, shipped = own.speed("MI210", TRAINING), speed("MI210")
    assert found is not None
    # One row against a prior: it moves the figure towards what was measured, by as much as rows and priors are known.
    assert shipped.millionths < found.millionths < 500_000
    assert not found.estimate
    assert "from 1 run (ours: our runs)" in found.source
    assert found.checked_on == "2026-11-01"
    # The family follows.
    sibling = own.speed("MI250", TRAINING)
    assert sibling is not None
    assert sibling.millionths > speed("MI250").millionths
    assert sibling.estimate


def test_more_rows_are_believed_more() -> None:
    def of(count: int) -> Speed:
        groups = [{**OURS, "benchmark": f"ours {n}", "perGPU": {"H100-SXM": 100, "MI210": 50}} for n in range(count)]
        found = read_catalog(json.dumps({"throughputs": groups})).speed("MI210", TRAINING)
        assert found is not None
        return found

    one, many = of(1), of(6)
    assert abs(many.millionths - 500_000) < abs(one.millionths - 500_000)
    assert many.error < one.error


def test_a_claim_moves_less_than_an_audit() -> None:
    def of(evidence: str) -> float:
        group = {**OURS, "evidence": evidence, "perGPU": {"H100-SXM": 100, "MI355X": 900}}
        found = read_catalog(json.dumps({"throughputs": [group]})).speed("MI355X", TRAINING)
        assert found is not None
        return math.log(found.millionths)

    assert of("Audited") > of("Measured") > of("Claimed")


@pytest.mark.parametrize("figure", ["0", "-1"])
def test_a_figure_that_is_none_is_refused(figure: str) -> None:
    own = read_catalog(json.dumps({"throughputs": [{**OURS, "perGPU": {"H100-SXM": figure}}]}))
    assert len(own.refused) == 1
    assert "H100-SXM" in own.refused[0][1]


FURTHER_ORDER = [
    # faster, slower, at least, at most: data sheets, or two boards of one silicon
    ("H200", "H100-PCIe", 1.1, 2.6),
    ("H100-SXM", "H100-PCIe", 1.05, 1.9),
    ("A100-80GB", "A10G", 1.8, 5.0),
    ("MI300X", "MI250", 1.4, 4.5),
    ("MI210", "MI100", 0.9, 2.2),
    ("L40S", "A10G", 1.2, 4.0),
    ("L40", "L4", 1.5, 4.5),
    ("MI350X", "MI300X", 1.3, 4.0),
    ("MI355X", "MI350X", 0.99, 1.4),
    ("RTX-4090", "RTX-3090", 1.2, 2.6),
    ("GB200", "H200", 1.2, 3.0),
]


@KINDS
@pytest.mark.parametrize(("faster", "slower", "least", "most"), FURTHER_ORDER)
def test_a_further_order_holds(faster: str, slower: str, least: float, most: float, kind: WorkKind) -> None:
    assert least <= ratio(faster, slower, kind) <= most
