"""A job with lists of unknown names at their greatest length is explained at a bounded cost, in a bounded length."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from builders import H100, L4, MI300X, demand, fleet, node

from gpujob.catalog.files.load import load_catalog
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.engine.choose import Pick, choose
from gpujob.placement.engine.decide import POOLS_OF_A_PIECE, decide, decide_in_pieces
from gpujob.placement.engine.evaluate import GangEvaluator
from gpujob.placement.engine.pieces import Pieces
from gpujob.placement.report import summary
from gpujob.placement.scoring.candidate import Decision
from gpujob.placement.scoring.score import PoolResult
from gpujob.placement.suggestions.search import fix_in_pieces, with_fix
from gpujob.values.vocabulary import Verdict

LISTS: dict[str, Any] = {
    "pools": {"allow": ["z" * 200 + str(n) for n in range(64)], "deny": ["y" * 200 + str(n) for n in range(64)]},
    "accelerators": {"deny": ["w" * 50 + str(n) for n in range(64)]},
}
ALL: dict[str, Any] = {
    "gpuMemory": "600G",
    "requires": ["BF16", *(f"qq{n}" for n in range(31))],
    "placement": {**LISTS, "maxPricePerHour": "1.0"},
    "shapes": [{"nodes": n + 1, "gpusPerNode": n % 8 + 1} for n in range(16)],
}
POOLS = 24


@pytest.mark.parametrize("spec", [ALL, *({"gpuMemory": "600G", "placement": {name: LISTS[name]}} for name in LISTS)])
def test_each_name_is_looked_up_once_and_few_are_shown(spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    asked, real = Counter[str](), difflib.get_close_matches

    def matches(word: str, *others: Any, **more: Any) -> list[str]:
        asked[word] += len(word) > 10
        return real(word, *others, **more)

    monkeypatch.setattr(difflib, "get_close_matches", matches)
    devices = (H100, MI300X, L4)
    nodes = [
        node(f"n{n}", devices[n % 3], price="2", labels={"topology.kubernetes.io/region": f"r{len(str(spec))}-{n}"})
        for n in range(POOLS)
    ]
    found, catalog = fleet(*nodes), load_catalog()
    decision = with_fix(decide(demand(**spec), found, catalog), found, catalog)
    assert decision.verdict is Verdict.MISCONFIGURED
    assert max(asked.values(), default=0) <= 2, "once among pools or accelerators"
    assert sum(asked.values()) < 100
    assert len(summary.summary(decision)) < 8000


def test_a_piece_of_an_explanation_evaluates_few_pools_and_makes_one_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated, chosen, real = Counter[int](), Counter[int](), GangEvaluator.trials
    piece = 0

    def trials(asked: GangEvaluator, pool: Pool) -> Sequence[PoolResult]:
        evaluated[piece] += 1
        return real(asked, pool)

    def choice(*args: Any, **more: Any) -> Pick:
        chosen[piece] += 1
        return choose(*args, **more)

    monkeypatch.setattr(GangEvaluator, "trials", trials)
    monkeypatch.setattr("gpujob.placement.suggestions.search.choose", choice)
    nodes = [node(f"n{n}", H100, price="2", labels={"topology.kubernetes.io/region": f"r{n}"}) for n in range(60)]
    found, catalog = fleet(*nodes), load_catalog()
    asked = demand(**ALL | {"shapes": None})

    def explained() -> Pieces[Decision]:
        return (yield from fix_in_pieces((yield from decide_in_pieces(asked, found, catalog)), found, catalog))

    for _ in explained():
        piece += 1
    assert len(evaluated) >= 60 // POOLS_OF_A_PIECE
    assert max(evaluated.values()) <= POOLS_OF_A_PIECE
    assert max(chosen.values()) == 1
