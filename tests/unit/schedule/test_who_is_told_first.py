"""Namespaces take turns at explanations: many jobs of one delay no other namespace's."""

from __future__ import annotations

import math

from gpujob.cluster.messages.explanations import in_turns

NEVER = -math.inf


def test_the_namespaces_take_turns() -> None:
    jobs = [*((f"m{number}", "many", NEVER) for number in range(150)), ("a", "few", NEVER), ("b", "few", NEVER)]
    assert list(in_turns(jobs, {}))[:4] == ["m0", "a", "m1", "b"]


def test_the_namespace_that_was_told_longest_ago_comes_first() -> None:
    jobs = [("m", "many", NEVER), ("a", "few", NEVER), ("c", "third", NEVER)]
    assert list(in_turns(jobs, {"many": 9.0, "third": 3.0})) == ["a", "c", "m"]


def test_within_a_namespace_whoever_was_told_longest_ago_comes_first() -> None:
    jobs = [("new", "team", 8.0), ("old", "team", 2.0), ("never", "team", NEVER)]
    assert list(in_turns(jobs, {"team": 8.0})) == ["never", "old", "new"]
