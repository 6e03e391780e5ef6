"""A job with lists of unknown names at their greatest length is explained at a bounded cost, in a bounded length."""

from __future__ import annotations

import difflib
from collections import Counter
from typing import Any

import pytest
from builders import H100, L4, MI300X, demand, fleet, node

from gpujob.catalog.files.load import load_catalog
from gpujob.placement.engine.decide import decide
from gpujob.placement.report import summary
from gpujob.placement.suggestions.search import with_fix
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
