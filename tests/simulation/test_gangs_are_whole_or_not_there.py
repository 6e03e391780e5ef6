"""Twenty gangs on ten nodes, in random orders, three of which the scheduler does not bind at first: no node is ever promised twice,
only those three are ever half placed, they give everything back after 60 seconds, and all end.

`make gangs` plays 1,000 orders on all cores, and `make test` as many as 45 seconds of CPU allow; these tests play two of them, and two
in which the rule does not hold.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import ANY_IMAGES, H100, fleet, node

from gpujob.cluster.index.cluster_index import ClusterIndex
from tests.simulation.__main__ import Share, ordered_for
from tests.simulation.gangs import GPUS, MOST, NODES, TIMINGS, play


@pytest.mark.parametrize("seed", range(2))
def test_no_node_is_promised_twice_and_a_gang_that_is_not_whole_gives_everything_back(seed: int) -> None:
    order = play(seed)
    assert order.good, order


def test_an_order_in_which_a_gang_keeps_its_half_is_not_good() -> None:
    order = play(0, replace(TIMINGS, unbound_gang=200.0))
    assert (order.good, order.longest > MOST) == (False, True)


def test_an_operator_that_does_not_see_what_others_hold_makes_half_gangs(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = fleet(*(node(f"n{number}", H100) for number in range(NODES)), catalog=ANY_IMAGES)
    monkeypatch.setattr(ClusterIndex, "fleet", lambda index, reserved=None: empty)
    order = play(0)
    assert (order.good, order.most > GPUS, order.half_placed > 0) == (False, True, True)


def test_a_worker_plays_for_its_seconds_and_draws_orders_that_no_other_one_draws() -> None:
    one = ordered_for(Share(seed=5, step=2, seconds=0.0))
    assert [order.seed for order in one] == [5]
    assert [order.seed for order in ordered_for(Share(seed=6, step=2, seconds=0.001))] == [6]
