"""Of pods that fail one after the other the first failure decides whether the user or the infrastructure is to blame."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from test_failed_attempts import blamed, pod

from gpujob.lifecycle.failures import Blame

ASKED = {"deleted": "2026-01-01T12:00:30Z", "grace": 30}
"""Its deletion was asked for at noon."""


def told(code: int, finished: str, number: int = 0) -> Any:
    return replace(pod(number, code=code, leaving=True), finished=finished, **ASKED)


def failed(code: int, finished: str, number: int = 1) -> Any:
    return replace(pod(number, code=code), finished=finished)


@pytest.mark.parametrize(
    ("pods", "blame"),
    [
        # torchrun ends with 1 on SIGTERM, and its peer a second later because it lost it.
        ([told(1, "2026-01-01T12:00:01Z"), failed(1, "2026-01-01T12:00:02Z")], Blame.INFRASTRUCTURE),
        ([told(1, "2026-01-01T12:00:01Z")], Blame.INFRASTRUCTURE),
        ([told(0, "2026-01-01T12:00:01Z"), failed(1, "2026-01-01T12:00:02Z")], Blame.INFRASTRUCTURE),
        # The program failed, and the Job controller took the other pod away in the same second.
        ([told(1, "2026-01-01T12:00:01Z"), failed(1, "2026-01-01T12:00:00Z")], Blame.USER),
        ([told(143, "2026-01-01T12:00:01Z"), failed(1, "2026-01-01T11:59:58Z")], Blame.USER),
        # One pod of four failed by itself, another because of it before it was told to end.
        (
            [
                told(143, "2026-01-01T12:00:01Z"),
                failed(1, "2026-01-01T11:59:59Z"),
                failed(1, "2026-01-01T12:00:03Z", 2),
            ],
            Blame.USER,
        ),
        # It had failed when its deletion was asked for.
        ([told(1, "2026-01-01T11:59:59Z")], Blame.USER),
        (
            [told(137, "2026-01-01T12:00:01Z"), replace(failed(1, "2026-01-01T12:00:02Z"), reason="OOMKilled")],
            Blame.USER,
        ),
        ([told(1, "2026-01-01T12:00:01Z"), failed(1, "whenever")], Blame.USER),
    ],
)
def test_who_failed_first_is_to_blame(pods: list[Any], blame: Blame) -> None:
    assert blamed(pods)[0] is blame


@pytest.mark.parametrize("grace", [-5, 0, 10**18])
def test_any_grace_may_stand_there(grace: int) -> None:
    assert blamed([replace(told(143, "2026-01-01T12:00:31Z"), grace=grace)])[0] is Blame.INFRASTRUCTURE
