"""Which answers to the creation of a child judge the child, which pass, and after how many seconds a creation hangs."""

from __future__ import annotations

import contextlib

import pytest

from gpujob.cluster.client.api_errors import ApiError, Forbidden, OutcomeUnknown
from gpujob.cluster.queue.hanging import Hanging
from gpujob.cluster.writer.child_errors import ChildNotCreated, ChildRefused, refusal


@pytest.mark.parametrize("status", [401, 404, 408, 409, 429, 500, 503])
def test_codes_of_a_moment_do_not_judge_the_child(status: int) -> None:
    found = refusal(ApiError(status, "Reason", "words", retry_after=3.0))
    assert isinstance(found, ChildNotCreated)
    assert (str(found), found.retry_after, found.unanswered) == ("words", 3.0, False)


@pytest.mark.parametrize("status", [400, 403, 405, 410, 422])
def test_other_codes_judge_it(status: int) -> None:
    kind = Forbidden if status == 403 else ApiError
    found = refusal(kind(status, "Reason", ""))
    assert isinstance(found, ChildRefused)
    assert str(found) == "Reason"


def test_without_an_answer_it_may_still_be_created_unless_the_webhook_failed() -> None:
    lost, webhook = (refusal(OutcomeUnknown(500, "Reason", words)) for words in ("lost", "failed calling webhook x"))
    assert isinstance(lost, ChildNotCreated)
    assert isinstance(webhook, ChildNotCreated)
    assert (lost.unanswered, webhook.unanswered) == (True, False)
    assert ChildNotCreated("quota").unanswered is False


def test_where_nothing_answers_the_child_is_judged_only_where_another_call_is_answered() -> None:
    silent = ApiError(0, "TimeoutError", "")
    assert refusal(silent) is None
    found = refusal(silent, alone=True)
    assert isinstance(found, ChildNotCreated)
    assert str(found).startswith("no answer within ")


@pytest.mark.parametrize(("seconds", "hangs"), [(4.9, False), (5.0, True)])
def test_a_creation_hangs_that_fails_after_five_seconds(seconds: float, hangs: bool) -> None:
    now = [100.0]
    hanging = Hanging(lambda: now[0])
    with contextlib.suppress(ValueError), hanging.one("team"):
        now[0] += seconds
        assert hanging.hangs("team") is hangs, "while it is under way"
        raise ValueError
    assert hanging.hangs("team") is hangs
