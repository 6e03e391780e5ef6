"""docs/architecture.md follows a job through at most ten files that exist, and its table has every room."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
SOURCE = PAGE.parents[1] / "operator" / "gpujob"
MOST_FILES = 10


def section(title: str) -> str:
    """The text of one section."""
    found = re.search(rf"^## {title}.*?\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found, f"the page has no section {title}"
    return found[1]


def test_the_way_of_a_job_is_ten_files_that_exist() -> None:
    steps = re.findall(
        r"^\d+\. \[`([\w/.]+)`\]\(\.\./operator/gpujob/([\w/.]+)\)", section("From watch to status"), re.MULTILINE
    )
    assert 0 < len(steps) <= MOST_FILES
    assert [shown for shown, _ in steps] == [linked for _, linked in steps]
    assert [linked for _, linked in steps if not (SOURCE / linked).is_file()] == []


def test_the_picture_has_the_files_of_the_list() -> None:
    text = section("From watch to status")
    drawn = set(re.findall(r"\[(\w+/\w+)\]", text.partition("```mermaid")[2].partition("```")[0]))
    listed = {
        re.sub(r"^cluster/|\.py$", "", path) for path in re.findall(r"^\d+\. \[`([\w/.]+)`\]", text, re.MULTILINE)
    }
    assert drawn == listed


def test_each_question_is_answered_by_folders_that_exist() -> None:
    rows = [row for row in section("Five questions").splitlines() if row.startswith("| ") and "?" in row]
    named = [re.findall(r"`([\w/]+/[\w.]*)`", row) for row in rows]
    assert len(rows) == 5
    assert all(named)
    assert [path for paths in named for path in paths if not (SOURCE / path).exists()] == []


def test_each_answer_names_a_definition_of_a_file_in_its_folders() -> None:
    rows = [row.split("|") for row in section("Five questions").splitlines() if row.startswith("| ") and "?" in row]
    for _, _, folders, begin, _ in rows:
        named = re.findall(r"`(\w+)` in `(\w+\.py)`", begin)
        assert {file for _, file in named} == set(re.findall(r"`(\w+\.py)`", begin)) != set()
        for name, file in named:
            files = [SOURCE / folder / file for folder in re.findall(r"`([\w/]+/)`", folders)]
            found = [path for path in files if path.is_file()]
            assert [path.name for path in found if re.search(rf"\b(def|class) {name}\b", path.read_text())] == [file]


def test_each_room_is_in_the_table() -> None:
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)) >= rooms
