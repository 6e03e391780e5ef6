"""Whole-gang alternatives: the job runs as exactly one of its shapes, on one pool."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from builders import (
    A100,
    A100_40,
    ANY_IMAGES,
    H100,
    H200,
    MI210,
    MI300X,
    MI325X,
    MI355X,
    T4,
    decision,
    fleet,
    node,
    pod,
)  # fmt: skip

from gpujob.placement.engine.choose import choose
from gpujob.placement.report.summary import summary
from gpujob.placement.scoring.candidate import Decision
from gpujob.placement.suggestions.search import fix_in_pieces, with_fix
from gpujob.values.vocabulary import Outcome, Reason, Verdict

ONE_OR_TWO: list[dict[str, Any]] = [
    {"accelerator": "MI300X"},
    {"accelerator": "H100-SXM", "gpusPerNode": 2},
]


def chosen(found: Decision) -> tuple[str, str]:
    assert found.choice is not None
    candidate = found.choice.candidate
    return candidate.gang.shape, candidate.pool.accelerator_id


def test_the_cheaper_shape_wins_at_its_own_price() -> None:
    cost = {"objective": "Cost"}
    nodes = (node("a", MI300X, price="3.00"), node("n", H100, price="1.60"))
    assert chosen(decision(*nodes, shapes=ONE_OR_TWO, placement=cost)) == ("1x1", "MI300X")
    dear = (node("a", MI300X, price="3.30"), node("n", H100, price="1.60"))
    found = decision(*dear, shapes=ONE_OR_TWO, placement=cost)
    assert chosen(found) == ("1x2", "H100-SXM")
    assert found.choice is not None
    assert found.choice.candidate.price_per_hour == 3_200_000


def test_a_shape_for_another_accelerator_says_so() -> None:
    found = decision(node("n", H100), shapes=ONE_OR_TWO)
    refused = next(c for c in found.candidates if c.outcome is Outcome.REJECTED)
    assert next((f.reason, f.message) for f in refused.reasons) == (
        Reason.ACCELERATOR_EXCLUDED,
        "shapes[0] is for MI300X",
    )


def test_a_busy_shape_gives_way_to_the_next() -> None:
    shapes = [{"nodes": 2, "gpusPerNode": 8}, {"gpusPerNode": 8}]
    assert chosen(decision(node("n", H100, price="2"), shapes=shapes)) == ("1x8", "H100-SXM")


def test_an_unknown_accelerator_of_a_shape_is_told_with_the_nearest() -> None:
    found = decision(node("n", H100), shapes=[{"accelerator": "MI30X"}])
    assert found.verdict is Verdict.MISCONFIGURED
    sentence = "shapes[0].accelerator: MI30X is no known accelerator; the nearest are MI300A, MI300X and MI308X"
    assert found.problems[0].message == sentence


@pytest.mark.parametrize(
    ("word", "full", "free", "meant"),
    [
        ("MI3", [("a", MI300X)], [("b", MI325X)], "MI325X"),
        ("MI3", [("a", MI325X)], [("b", MI300X)], "MI300X"),
        ("MI3", [("a", MI300X), ("b", MI325X)], [("c", MI355X)], "MI355X"),
        ("A1", [("a", A100_40)], [("b", A100)], "A100-80GB"),
        ("H10", [("a", H100)], [("b", H200)], "H100"),
        # Where all have room, and where none has, the first name.
        ("MI3", [], [("a", MI325X), ("b", MI300X)], "MI300X"),
        ("MI3", [("a", MI325X), ("b", MI300X)], [], "MI300X"),
    ],
)
def test_an_unknown_accelerator_of_a_shape_is_fixed_to_one_with_room(
    word: str, full: list[tuple[str, Any]], free: list[tuple[str, Any]], meant: str
) -> None:
    busy = [pod(f"p-{name}", name, {gpu.resource: 8}) for name, gpu in full]
    objects = [*(node(name, gpu) for name, gpu in [*full, *free]), *busy]
    found = decision(*objects, catalog=ANY_IMAGES, shapes=[{"accelerator": word}])
    fix = with_fix(found, fleet(*objects), ANY_IMAGES).fix
    assert fix is not None
    assert [(change.field, change.after) for change in fix.changes] == [("spec.shapes[0].accelerator", meant)]


def test_the_fix_names_the_field_of_the_shape() -> None:
    shapes = [{"accelerator": "MI300X"}, {"nodes": 3, "gpusPerNode": 8}]
    found = decision(node("n", H100), catalog=ANY_IMAGES, shapes=shapes)
    fix = with_fix(found, fleet(node("n", H100)), ANY_IMAGES).fix
    assert fix is not None
    # The alternative for AMD stays one: a fix takes no device of the other vendor for it.
    assert (fix.changes[0].field, fix.changes[0].before, fix.changes[0].after) == ("spec.shapes[1].nodes", 3, 1)


@pytest.mark.parametrize(
    ("word", "meant", "model"),
    [
        ("A100-XSM", ["A100"], "H100-SXM"),
        ("A100 SMX4 80 GB", ["A100-80GB"], "H100-SXM"),
        ("h10", ["H100"], "A100-80GB"),
        ("DGX H100", ["H100"], "A100-80GB"),
        ("mi30", ["MI300A", "MI300X", "MI308X"], "A100-80GB"),
        # What is near no model is left out.
        ("A800", None, "A100-80GB"),
    ],
)
def test_a_mistyped_model_that_is_denied_stays_denied(word: str, meant: list[str] | None, model: str) -> None:
    nodes = [node("a", A100, price="1.9"), node("h", H100, price="2"), node("m", MI300X, price="9")]
    found = decision(*nodes, catalog=ANY_IMAGES, placement={"accelerators": {"deny": [word]}})
    assert found.verdict is Verdict.MISCONFIGURED
    fix = with_fix(found, fleet(*nodes), ANY_IMAGES).fix
    assert fix is not None
    assert [(change.field, change.after) for change in fix.changes] == [("spec.placement.accelerators.deny", meant)]
    placement = {"objective": "Cost", "accelerators": {"deny": meant or []}}
    assert chosen(decision(*nodes, catalog=ANY_IMAGES, placement=placement)) == ("1x1", model)


FLEET = {"t": T4, "a": A100, "h": H100, "i": MI210, "m": MI300X, "n": MI325X}
PRICES = {"t": "0.30", "a": "2", "h": "4", "i": "0.90", "m": "4.5", "n": "5.5"}


def fixes_of(word: str, *names: str) -> tuple[list[Any], str | None, str]:
    """For a word for an accelerator the fix of `allow`, that of a shape, and the sentence; the job is placed with each."""
    nodes = [node(name, FLEET[name], price=PRICES[name]) for name in names or FLEET]
    known, found, sentences = fleet(*nodes), [], []
    for spec in ({"placement": {"accelerators": {"allow": [word]}}}, {"shapes": [{"accelerator": word}]}):
        said = decision(*nodes, catalog=ANY_IMAGES, **spec)
        fix = with_fix(said, known, ANY_IMAGES).fix
        sentences.append(said.problems[0].message)
        found.append("none" if fix is None else fix.changes[0].after)
        assert fix is None or (len(fix.changes) == 1 and choose(fix.demand, known, ANY_IMAGES).choice is not None)
    return found[0], found[1], sentences[1].removeprefix(f"shapes[0].accelerator: {word} is no known accelerator")


NEAR_NONE = "; the cluster has A100-80GB, H100-SXM, MI210, MI300X, MI325X and T4; `kubectl gpujob catalog accelerators` lists all"


@pytest.mark.parametrize(
    ("word", "allow", "shape", "sentence"),
    [
        ("Hopper", ["H100-SXM"], "H100-SXM", "; the nearest is H100-SXM"),
        ("sm_80", ["A100-80GB"], "A100-80GB", "; the nearest is A100-80GB"),
        ("turing", ["T4"], "T4", "; the nearest is T4"),
        ("gfx942", ["MI300X", "MI325X"], "MI300X", "; the nearest are MI300X and MI325X"),
        ("CDNA2", ["MI210"], "MI210", "; the nearest is MI210"),
        ("mi200", ["MI210"], "MI210", "; the nearest is MI210"),
        ("instinct", ["MI210", "MI300X", "MI325X"], "MI210", "; the nearest are MI210, MI300X and MI325X"),
        ("amd", ["MI210", "MI300X", "MI325X"], "MI210", "; the nearest are MI210, MI300X and MI325X"),
        ("NVIDIA", ["A100-80GB", "H100-SXM", "T4"], "T4", "; the nearest are A100-80GB, H100-SXM and T4"),
        # Near no model: the word may be left out, a device for another one is no fix.
        ("H800", None, None, NEAR_NONE),
        ("Zzz", None, None, NEAR_NONE),
        # No device of its vendor is known by that name, and one of the other vendor is not what was meant.
        ("MI999", "none", "none", NEAR_NONE),
        ("gfx1100", "none", "none", NEAR_NONE),
        ("Radeon VII", "none", "none", NEAR_NONE),
        ("blackwell", "none", "none", NEAR_NONE),
        ("GeForce 9", "none", "none", NEAR_NONE),
    ],
)
def test_a_word_for_no_model_gets_devices_of_its_kind_or_none(word: str, allow: Any, shape: Any, sentence: str) -> None:
    assert fixes_of(word) == (allow, shape, sentence)


def test_a_vendor_without_a_device_gets_none_of_the_other() -> None:
    assert fixes_of("amd", "t", "h")[:2] == ("none", "none")
    assert fixes_of("hopper", "m")[:2] == ("none", "none")


def test_a_shape_of_one_vendor_never_becomes_one_of_the_other() -> None:
    nodes, spec = (
        [node("h", H100, 2, price="2")],
        [{"accelerator": "MI300X"}, {"accelerator": "H100", "gpusPerNode": 4}],
    )
    fix = with_fix(decision(*nodes, catalog=ANY_IMAGES, shapes=spec), fleet(*nodes), ANY_IMAGES).fix
    assert fix is not None
    assert [(change.field, change.after) for change in fix.changes] == [("spec.shapes[1].gpusPerNode", 2)]
    alone = with_fix(decision(*nodes, catalog=ANY_IMAGES, shapes=spec[:1]), fleet(*nodes), ANY_IMAGES)
    assert alone.fix is None
    says = "spec.shapes has only devices of AMD, and the cluster has none; add an entry for H100-SXM"
    assert alone.hopeless == says
    assert summary(alone).endswith(f"shapes[0] is for MI300X; {says}")
    with_it = [*spec[:1], {"accelerator": "H100-SXM"}]
    assert decision(*nodes, catalog=ANY_IMAGES, shapes=with_it).verdict is Verdict.PLACED


@pytest.mark.parametrize(
    ("shapes", "more"),
    [
        # The entry would not run either, or the cluster has a device of that vendor.
        ([{"accelerator": "MI300X", "gpusPerNode": 16}], {}),
        ([{"accelerator": "MI300X"}], {"placement": {"capacityTypes": ["Spot"]}}),
        ([{"accelerator": "MI300X"}, {"gpusPerNode": 16, "accelerator": "A100-80GB"}], {"gpuMemory": "500Gi"}),
    ],
)
def test_an_entry_is_proposed_only_where_it_helps(shapes: list[dict[str, Any]], more: dict[str, Any]) -> None:
    nodes = [node("h", H100, 2, price="2")]
    found = with_fix(decision(*nodes, catalog=ANY_IMAGES, shapes=shapes, **more), fleet(*nodes), ANY_IMAGES)
    assert found.verdict is Verdict.IMPOSSIBLE
    assert "add an entry" not in found.hopeless


def test_each_entry_is_tried_in_a_piece_of_its_own() -> None:
    nodes = [node("h", H100, 2, price="2"), node("a", A100, 2, price="2")]
    shapes = [{"accelerator": "MI300X", "gpusPerNode": 16}]
    started, every = decision(*nodes, catalog=ANY_IMAGES, shapes=shapes), fleet(*nodes)
    tried = list[object]()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            "gpujob.placement.suggestions.search.choose",
            lambda *args, **more: (tried.append(args), choose(*args, **more))[1],
        )
        counts = [len(tried) for _ in fix_in_pieces(started, every, ANY_IMAGES)]
    assert len(tried) - counts[-1] <= 1
    assert all(after - before <= 1 for before, after in pairwise(counts))


@pytest.mark.parametrize(("shapes", "said"), [
    ([{"gpusPerNode": 2}, {"accelerator": "H100-SXM"}], []),
    ([{"gpusPerNode": 2}, {"nodes": 2}], []),
    ([{"gpusPerNode": 2}, {"nodes": 1, "gpusPerNode": 2, "args": ["--more"]}], [(1, 0)]),
    ([{}, {"accelerator": "H100-SXM"}, {"accelerator": "H100-SXM"}, {}], [(2, 1), (3, 0)]),
])  # fmt: skip
def test_an_entry_that_repeats_another_is_a_warning(shapes: list[dict[str, Any]], said: list[tuple[int, int]]) -> None:
    found = decision(node("n", H100, price="1"), shapes=shapes)
    assert found.choice is not None
    warnings = [each.message for each in found.choice.candidate.warnings if each.reason is Reason.INVALID_SPEC]
    assert warnings == [
        f"shapes[{at}] repeats nodes, GPUs and accelerator of shapes[{first}], which is tried in its place; remove one"
        for at, first in said
    ]
