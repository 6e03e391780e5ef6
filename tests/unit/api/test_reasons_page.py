"""The page of reasons: each reason once, with a meaning and a remedy, as the page in docs has it."""

from __future__ import annotations

from pathlib import Path

from gpujob.api.generate.reasons_page import main, page
from gpujob.values.reasons import SECTIONS, Reason

DOCS = Path(__file__).parents[3] / "docs"


def test_every_reason_is_explained_once() -> None:
    rows = [row.split("|")[1:4] for row in page().splitlines() if row.startswith("| <a")]
    assert rows == [
        [f' <a id="{reason}"></a>`{reason}` ', f" {reason.meaning} ", f" {reason.remedy} "] for reason in Reason
    ]
    assert all(reason.meaning and reason.remedy for reason in Reason)
    assert [title for title, _, _ in SECTIONS] == [row[3:] for row in page().splitlines() if row.startswith("## ")]


def test_the_page_is_the_one_in_docs_and_others_link_to_it() -> None:
    assert main(["--check", str(DOCS / "reasons.md")]) == 0, "run `make generate`"
    assert all(len(row.split("|")) == 5 for row in page().splitlines() if row.startswith("|"))
    assert "(docs/reasons.md)" in (DOCS.parent / "README.md").read_text()
    assert "\n## Before the program starts\n" in page(), "docs/preflight.md links to this title"
