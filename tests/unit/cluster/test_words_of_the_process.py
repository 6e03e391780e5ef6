"""`python -m gpujob.cluster` takes no arguments: a request for help, or a misspelling, starts no operator."""

from __future__ import annotations

import pytest

from gpujob.cluster.__main__ import main


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_is_shown_and_nothing_started(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("usage: python -m gpujob.cluster\n")
    assert "GPUJOB_HOLD_SECONDS" in shown.out
    assert shown.err == ""


def test_other_words_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--kubeconfig", "x"]) == 2
    assert capsys.readouterr().err.startswith("unexpected argument '--kubeconfig'\nusage: ")
