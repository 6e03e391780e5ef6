"""docs/architecture.md follows a job through at most ten files that exist, and its table has every room; CONTRIBUTING is one page."""

from __future__ import annotations

import re
from pathlib import Path

CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"
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
    drawn = set(re.findall(r"\[([\w/]+)\]", text.partition("```mermaid")[2].partition("```")[0]))
    listed = {
        re.sub(r"^cluster/|\.py$", "", path) for path in re.findall(r"^\d+\. \[`([\w/.]+)`\]", text, re.MULTILINE)
    }
    assert drawn == listed


def questions() -> list[list[str]]:
    """The cells of the five rows: question, folder, where to begin, elsewhere."""
    rows = [row for row in section("Five questions").splitlines() if row.startswith("| ") and "?" in row]
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows]


def test_each_question_is_answered_by_one_folder_that_exists() -> None:
    folders = [re.findall(r"`([\w/]+/)`", cells[1]) for cells in questions()]
    assert [len(found) for found in folders] == [1] * 5
    assert len({found for (found,) in folders}) == 5
    named = [path for cells in questions() for path in re.findall(r"`([\w/]+/[\w.]*)`", " ".join(cells))]
    assert [path for path in named if not (SOURCE / path).exists()] == []


def test_each_answer_names_definitions_of_a_file_in_its_folder() -> None:
    for _, folder, begin, _ in questions():
        named = [
            (name, file)
            for names, file in re.findall(r"((?:`\w+`(?: and )?)+) in `(\w+\.py)`", begin)
            for name in re.findall(r"\w+(?=`)", names)
        ]
        assert {file for _, file in named} == set(re.findall(r"`(\w+\.py)`", begin)) != set()
        for name, file in named:
            text = (SOURCE / folder.strip("`") / file).read_text()
            assert re.search(rf"\b(def|class) {name}\b", text), (name, file)


def test_each_room_is_in_the_table() -> None:
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)) >= rooms


MOST_WORDS = 450
MOST_LINES = 60


def test_contributing_is_one_page_with_a_picture_of_the_rooms() -> None:
    text = CONTRIBUTING.read_text()
    assert len(text.split()) <= MOST_WORDS
    assert len(text.splitlines()) <= MOST_LINES
    picture = text.partition("```mermaid")[2].partition("```")[0]
    drawn = set(re.findall(r"\w+", re.sub(r"\w+\[\(.*?\)\]|-- .*? -->|flowchart LR", " ", picture)))
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert drawn == rooms - {"cli", "cluster", "values"}
