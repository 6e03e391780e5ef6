"""Pools are published seldom while only nodes and pods change, and at once when an admin changes a GPUPool."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gpujob.cluster.client.api_errors import ApiError, Forbidden, OutcomeUnknown, Unreachable
from gpujob.cluster.controller.pools import EVERY, PoolPublisher


class Seen:
    """What the operator mirrors, as far as the publisher asks."""

    def __init__(self) -> None:
        self.now, self.version = 1000.0, 1
        self.pools: dict[str, Any] = {"found": SimpleNamespace(uid="f", generation=1, admin=None)}
        self.cache = SimpleNamespace(complete=True)
        self.publisher = PoolPublisher(self, None, lambda: True, lambda: self.now)  # type: ignore[arg-type]

    def fleet_version(self) -> tuple[int, ...]:
        return (self.version,)

    def pool_records(self) -> dict[str, Any]:
        return self.pools

    def due(self, seconds: float) -> bool:
        """Whether something is published so much later."""
        self.now += seconds
        if not self.publisher.is_due():
            return False
        self.publisher.note()
        return True


@pytest.fixture
def seen() -> Seen:
    found = Seen()
    assert found.due(0)
    return found


def test_nothing_is_published_while_nothing_changes(seen: Seen) -> None:
    assert not seen.due(10 * EVERY)


def test_changes_of_nodes_and_pods_gather(seen: Seen) -> None:
    seen.version = 2
    assert not seen.due(EVERY - 1)
    assert seen.due(1)
    seen.version = 3
    assert not seen.due(1)


def test_an_admins_pool_that_comes_changes_or_goes_is_published_at_once(seen: Seen) -> None:
    for version, pool in ((2, SimpleNamespace(uid="m", generation=1, admin=object())),
                          (3, SimpleNamespace(uid="m", generation=2, admin=object())), (4, None)):  # fmt: skip
        seen.version = version
        seen.pools = {"found": seen.pools["found"], **({"mine": pool} if pool else {})}
        assert seen.due(0.5)
        assert not seen.due(0.5)


@pytest.mark.parametrize(
    "error",
    [
        OutcomeUnknown(503, "ServiceUnavailable", "not now"),
        Unreachable(0, "x", "gone"),
        Forbidden(403, "Forbidden", "no"),
    ],
)
async def test_a_pool_that_is_not_removed_stops_no_other_and_is_tried_again(seen: Seen, error: ApiError) -> None:
    asked = list[str]()

    async def delete_pool(name: str, uid: str) -> None:
        asked.append(name)
        if name == "first":
            raise error

    seen.pools = {name: SimpleNamespace(uid=name, generation=1, admin=None) for name in ("second", "first")}
    seen.publisher._writer = SimpleNamespace(delete_pool=delete_pool)  # type: ignore[assignment]
    await seen.publisher.publish(SimpleNamespace(whole_pools=()))  # type: ignore[arg-type]
    assert asked == ["first", "second"]
    assert seen.due(EVERY)
