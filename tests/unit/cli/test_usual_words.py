"""What users of kubectl and of other tools type: their words, TYPE/NAME, and spans of time."""

from __future__ import annotations

import pytest
from cli_room import CATALOG, MIXED, Command, manifest

from gpujob.cli.input.spans import seconds_in
from gpujob.cli.verbs.verbs import USUAL, VERBS


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("validate", "plan -f JOB"),
        ("describe", "explain NAME"),
        ("list", "top, or kubectl get gpujobs"),
        ("Submit", "kubectl apply -f JOB"),
        ("plann", "plan"),
    ],
)
def test_a_word_of_another_tool_points_at_what_to_write(gpujob: Command, word: str, meant: str) -> None:
    answer = gpujob(word)
    assert (answer.code, answer.err) == (2, f"error: no such command '{word}'; did you mean {meant}?\n")


def test_no_verb_is_hidden_by_such_a_word() -> None:
    assert not USUAL.keys() & VERBS.keys()


@pytest.mark.parametrize("prefix", ["gpujob/", "gj/", "gpujobs.gpujob.dev/", ""])
def test_the_name_of_a_job_may_have_its_kind_before_it(gpujob: Command, prefix: str) -> None:
    answer = gpujob("explain", f"{prefix}nope", "--cluster", MIXED, "--catalog", CATALOG)
    assert answer.err == "error: the cluster description has no GPUJob nope; add it, or ask about a file with -f\n"


def test_the_name_of_a_pool_may_have_its_kind_before_it(gpujob: Command) -> None:
    common = ("explain", "-f", "-", "--cluster", MIXED, "--catalog", CATALOG, "--why-not")
    assert "Why not l4: " in gpujob(*common, "gpupool/l4", stdin=manifest()).out
    assert "there is no pool node/l4" in gpujob(*common, "node/l4", stdin=manifest()).err


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0), ("60", 60), ("1.5", 1.5), ("60s", 60), ("1m", 60), ("5m30s", 330), ("1h", 3600), ("1.5h", 5400), ("30d", 2592000),
        ("2w", 1209600), ("", None), ("soon", None), ("-1", None), ("1e9", None), ("nan", None), ("5m30", None), ("1 h", None),
        ("١h", None), ("1h" * 33, None),
    ],
)  # fmt: skip
def test_a_span_is_read_in_seconds(text: str, seconds: float | None) -> None:
    assert seconds_in(text) == seconds
