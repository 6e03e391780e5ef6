"""The durations that a page names are those of the controller, and the bounds between durations hold."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from pathlib import Path

import pytest

from gpujob.lifecycle import timings
from gpujob.lifecycle.timings import Timings
from gpujob.status.records.refused_pods import LONGEST

DOCS = Path(__file__).parents[3] / "docs"
IS = Timings()
MINUTE, HOUR = 60.0, 3600.0
NUMBERS = {5: "five", 6: "six", 10: "ten"}


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        ("life.md", f"run within {IS.placed:g} seconds, one status write"),
        ("life.md", f"a container does not start for {IS.stuck:g} seconds"),
        (
            "life.md",
            f"after {IS.retry_first:g}, {2 * IS.retry_first:g}, {4 * IS.retry_first:g}, … seconds, at most {IS.retry_longest:g}",
        ),
        ("life.md", f"left out by the next attempts for {NUMBERS[int(IS.node_excluded / MINUTE)]} minutes"),
        ("life.md", f"its toleration of {IS.node_lost:g} seconds"),
        ("life.md", f"after {IS.device_fault:g} seconds of such a fault"),
        ("life.md", f"end within {IS.interrupted:g} seconds, the attempt ends"),
        ("life.md", f"{IS.outlived:g} seconds after the"),
        ("life.md", f"pods are missing for {IS.refused:g} seconds"),
        ("life.md", f"by its uid and at most {IS.refused_reads} times"),
        ("life.md", f"words, in at most {LONGEST} characters"),
        ("life.md", f"which is seen within {IS.budgets:g} seconds"),
        ("life.md", f"between two counts ({IS.budgets:g} seconds)"),
        ("life.md", f"is shown within {NUMBERS[int(IS.progress / MINUTE)]} minutes"),
        ("pools.md", f"The job waits on, {IS.control_plane_silent:g} seconds at most"),
        ("pools.md", f"further attempt in a row waits for {IS.unbound_gang:g} seconds"),
        ("pools.md", f"the GPUs back after {IS.taken:g} seconds"),
        ("pools.md", f"waits twice as long, {IS.taken_longest:g} seconds at most"),
        ("pools.md", f"it waits {IS.node_away:g} seconds, because agents"),
        ("placement.md", f"that find no place take at most {IS.namespace_share:g} s of a cycle"),
        ("placement.md", f"wait for them for {IS.left_jobs:g} s at most"),
        ("placement.md", f"for {NUMBERS[int(IS.hold / HOUR)]} hours at most"),
    ],
)
def test_a_page_names_the_duration(page: str, sentence: str) -> None:
    text = " ".join((DOCS / page).read_text().split())
    assert sentence in text


def test_a_gang_gives_back_within_a_minute_and_before_a_single_pod() -> None:
    assert IS.unbound_gang == MINUTE < IS.unbound


def test_a_pool_that_accepts_no_pod_holds_devices_for_a_quarter_of_the_time_at_most() -> None:
    assert IS.unbound / (IS.unbound + IS.rest_factor * IS.unbound) <= 0.25


def test_no_gap_between_two_turns_of_the_loop_is_longer_than_50_milliseconds() -> None:
    explanation = 0.03
    assert IS.loop_slice + explanation <= 0.05
    assert IS.gather <= 0.05


def test_an_orphan_is_deleted_within_30_seconds() -> None:
    """It must be seen twice."""
    assert 2 * IS.orphans + MINUTE / 6 <= 30.0


def test_an_operator_that_repeats_steps_is_healed_within_75_seconds() -> None:
    """A watch may be 30 s behind before a final status counts as forged; other waits for it are shorter."""
    assert max(IS.forged_end, IS.cascade, IS.failed_pods, IS.service, IS.restarting, IS.outlived) <= 30.0


def test_a_stage_before_running_is_reported_after_a_while_and_checks_after_a_longer_one() -> None:
    assert IS.placed < IS.starting < IS.pending < IS.checking < MINUTE


def test_a_waiting_job_is_written_less_often_than_a_running_one_moves() -> None:
    assert IS.explain_again <= IS.numbers_settled < IS.numbers
    assert 1 / IS.explain_factor <= 0.02, "an explanation takes two percent of the time at most"
    assert IS.explain_slice <= 0.5
    assert IS.impossible == 5 * MINUTE, "as long as a node takes to come back"


def test_backoff_begins_with_a_second_and_is_bounded() -> None:
    assert (IS.backoff_first, IS.backoff_longest) == (1.0, 5 * MINUTE)
    assert IS.profile_patience < IS.backoff_longest


def test_new_nodes_have_a_quarter_of_an_hour() -> None:
    assert IS.provision == HOUR / 4


def test_the_writes_of_all_jobs_progress_are_few() -> None:
    assert IS.progress_rate == 2.0
    assert IS.prices < IS.progress
    assert IS.runner_every < IS.runner_unused == MINUTE


def _is_about_seconds(statement: ast.stmt) -> bool:
    """Whether a docstring of a constant says that it is a number of seconds."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and str(value.value).startswith("Seconds ")


def test_the_docstring_names_each_module_with_durations_of_its_own() -> None:
    root = Path(timings.__file__).parents[1]
    found = set()
    for path in [*root.glob("lifecycle/**/*.py"), *root.glob("status/**/*.py")]:
        body = ast.parse(path.read_text()).body
        constants = [(one, two) for one, two in pairwise(body) if isinstance(one, ast.AnnAssign | ast.Assign)]
        if any("timedelta(" in ast.unparse(one) or _is_about_seconds(two) for one, two in constants):
            found.add(path.stem)
    paragraph = (timings.__doc__ or "").partition("\n\n")[2]
    assert set(re.findall(r"`(\w+)`", paragraph)) - {"cluster"} == found
