"""A creation stays open while its request may still be performed; its job is decided again only once it is settled."""

from __future__ import annotations

import asyncio

import pytest
from builders import MI300X, demand, fleet, node

from gpujob.catalog.files.load import load_catalog
from gpujob.cluster.client.api_errors import ApiError, Forbidden, OutcomeUnknown, TooManyRequests, Unreachable
from gpujob.cluster.queue.open_creations import REPEATED, OpenCreations
from gpujob.cluster.writer.child_errors import ChildNotCreated, ChildRefused
from gpujob.schedule.answers import Answer
from gpujob.status.records.objects import JobRecord

JOB = JobRecord("team", "j", "u", 1, "", "7", False, {}, {})
DECISION = Answer(demand(), fleet(node("a", MI300X)), load_catalog()).decision


class Time:
    """A clock that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def end(creations: OpenCreations, error: BaseException | None) -> None:
    """One creation that ends so."""
    try:
        with creations.one(JOB, 1, DECISION, ()):
            if error is not None:
                raise error
    except BaseException as raised:
        assert raised is error


@pytest.mark.parametrize(
    ("error", "is_open"),
    [
        (None, False),
        (ChildRefused("no"), False),
        (ChildNotCreated("exceeded quota"), False),
        (ChildNotCreated("no answer", unanswered=True), True),
        (Forbidden(403, "Forbidden", ""), False),
        (TooManyRequests(429, "TooManyRequests", ""), False),
        (ApiError(503, "ServiceUnavailable", "", retry_after=1.0), False),
        (OutcomeUnknown(504, "Timeout", ""), True),
        (OutcomeUnknown(0, "TimeoutError", ""), True),
        (Unreachable(0, "Timeout", ""), True),
        (asyncio.CancelledError(), True),
        (ValueError(), False),
    ],
)
def test_a_creation_stays_open_while_it_may_be_performed(error: BaseException | None, is_open: bool) -> None:
    creations = OpenCreations(Time())
    end(creations, error)
    assert (creations.of(JOB.uid) is not None) is is_open


def test_one_decision_is_repeated_for_a_minute_from_its_first_request() -> None:
    time = Time()
    creations = OpenCreations(time)
    end(creations, OutcomeUnknown(0, "TimeoutError", ""))
    time.now += REPEATED - 1.0
    assert creations.to_repeat(JOB, 1) is not None
    assert creations.to_repeat(JOB, 2) is None, "another attempt has a child of another name"
    end(creations, OutcomeUnknown(0, "TimeoutError", ""))
    time.now += 1.0
    assert creations.to_repeat(JOB, 1) is None, "a repetition makes the minute no longer"


def test_the_refusal_of_a_second_request_does_not_settle_the_first_one() -> None:
    time = Time()
    creations = OpenCreations(time)
    end(creations, OutcomeUnknown(0, "TimeoutError", ""))
    time.now += 41.0
    end(creations, ChildNotCreated("exceeded quota"))
    assert (held := creations.to_repeat(JOB, 1)) is not None
    assert held.last == 100.0
    time.now += REPEATED - 41.0
    assert creations.to_repeat(JOB, 1) is None
    end(creations, None)
    assert creations.of(JOB.uid) is None
