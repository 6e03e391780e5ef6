"""Of the ranks of a job that stands still: the one that keeps the others waiting is named, or that none is."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gpujob.status.attempts.standstill import Ranks, RankSeen, sentence

REDUCES = "all_reduce (torch/distributed/distributed_c10d.py:2810)"
BACKWARD = "_engine_run_backward (torch/autograd/graph.py:829)"
SYNCS = "synchronize (torch/cuda/__init__.py:985)"
ITEM = "train (/code/train.py:44)"
READS = "read (/code/data.py:7)"


def rank(number: int, steps: int = 9, *stack: str, silent: float = 0.0) -> RankSeen:
    return RankSeen(number, f"j-{number}", f"n{number}", steps, still=100.0, silent=silent, stack=stack)


def behind(seen: Sequence[RankSeen], world: int = 0) -> str:
    """The first part of the sentence."""
    return sentence(Ranks(tuple(seen), world or len(seen))).split("; ")[0]


@pytest.mark.parametrize("waits", [REDUCES, BACKWARD, SYNCS, "wait (torch/distributed/c10d.py:3)", "barrier (x.py:1)"])
def test_the_one_outside_of_the_collective(waits: str) -> None:
    seen = [rank(0, 9, waits), rank(1, 9, READS), rank(2, 9, waits), rank(3, 9, waits)]
    assert behind(seen) == f"rank 1 (pod j-1 on node n1) is at step 9 in {READS}"
    assert sentence(Ranks(tuple(seen), 4)).endswith(f"; 3 of 3 ranks wait at step 9 in {waits}")


def test_the_one_with_the_fewest_steps() -> None:
    # On a GPU the others run ahead until they copy a number to the host, which shows no collective.
    assert behind([rank(0, 10, ITEM), rank(1, 10, ITEM), rank(2, 9, READS)]).startswith(
        "rank 2 (pod j-2 on node n2) is at step 9"
    )
    # Steps count where all wait in collectives, as with two that do not match.
    assert behind([rank(0, 10, REDUCES), rank(1, 9, REDUCES)]).startswith("rank 1 ")
    # One that waits a step behind is behind, whatever the others run meanwhile.
    assert behind([rank(0, 10, ITEM), rank(1, 9, REDUCES), rank(2, 10, ITEM)]).startswith("rank 1 ")


def test_several_behind() -> None:
    seen = [rank(0, 9, REDUCES), rank(1, 9, READS), rank(2, 9, READS), rank(3, 9, REDUCES)]
    assert behind(seen) == f"rank 1 and 1 other (pod j-1 on node n1) is at step 9 in {READS}"


@pytest.mark.parametrize("copy", ["item", "cpu", "tolist", "float"])
def test_a_rank_that_copies_a_number_to_the_host_waits(copy: str) -> None:
    """As two ranks on H200 do in an evaluation: one reads, and the other asks for the result of a collective."""
    place = f"{copy} (of a tensor)"
    assert sentence(Ranks((rank(0, 9, place, ITEM), rank(1, 9, READS)), 2)) == (
        f"rank 1 (pod j-1 on node n1) is at step 9 in {READS}; rank 0 waits at step 9 in {place}, called from {ITEM}"
    )


def test_the_phase_of_the_rank_that_is_behind_is_said() -> None:
    saves = RankSeen(1, "j-1", "n1", 9, "Saving", still=7300.0, stack=(READS,))
    assert behind([rank(0, 9, REDUCES), saves]) == (
        f"rank 1 (pod j-1 on node n1) is at step 9 (phase Saving) in {READS}"
    )
    assert behind([RankSeen(0, "j-0", "n0", 9, "Saving\nx", still=7300.0)]) == (
        "rank 0 (pod j-0 on node n0) is at step 9 (phase Saving\\nx)"
    )


def test_the_few_that_are_elsewhere() -> None:
    assert behind([rank(0, 9, ITEM), rank(1, 9, READS), rank(2, 9, ITEM)]).startswith("rank 1 ")
    assert behind([rank(0, 9, ITEM), rank(1, 9, READS)]).startswith("no rank is behind the others")


def test_all_in_one_collective() -> None:
    seen = [rank(number, 9, REDUCES, ITEM) for number in range(4)]
    assert sentence(Ranks(tuple(seen), 4)) == (
        f"no rank is behind the others: 4 of 4 ranks wait at step 9 in {REDUCES}, called from {ITEM}"
    )


def test_a_process_that_does_not_answer_is_behind_whatever_its_last_words() -> None:
    found = behind([rank(0, 9, READS), rank(1, 12, REDUCES, silent=40.0)])
    assert found == (
        "rank 1 (pod j-1 on node n1) is at step 12 and has not answered for 40 seconds: its process is stopped, or keeps Python's lock"
        f" in {REDUCES}"
    )


def test_ranks_that_do_not_report_and_pods_that_are_not_read() -> None:
    seen = (rank(0, 9, REDUCES),)
    assert sentence(Ranks(seen, 2)) == f"rank 1 does not report; rank 0 waits at step 9 in {REDUCES}"
    told = sentence(Ranks((rank(0, 9, REDUCES), rank(1, 9, REDUCES)), 8, (("j-7", "has no reporter on port 9466"),)))
    assert (
        "ranks 2, 3, 4, 5, … do not report; pod j-7 has no reporter on port 9466; 2 of 2 ranks wait at step 9" in told
    )
    assert sentence(Ranks()) == ""


def test_a_hostile_stack_stays_one_short_line() -> None:
    nasty = [rank(number, 9, *(["\x1b[31m\n" + "x" * 9000] * 24)) for number in range(64)]
    found = sentence(Ranks(tuple(nasty), 10**9))
    assert found.isprintable()
    assert len(found) < 2000
