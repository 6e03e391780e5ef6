"""`catalog` shows every row that decisions rest on, with its source and the day that it was read."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest
import yaml
from cli_room import CATALOG, Command, check_golden

SECTIONS = ["accelerators", "runtimes", "stacks", "prices", "features", "throughputs", "models", "speeds"]


def test_the_tables_are_what_they_were(gpujob: Command) -> None:
    check_golden("catalog.txt", gpujob("catalog", "accelerators", "runtimes", "--catalog", CATALOG).out)
    check_golden("catalog-wide.txt", gpujob("catalog", "accelerators", "--catalog", CATALOG, "-o", "wide").out)


def test_without_a_section_all_are_shown_each_under_its_name(gpujob: Command) -> None:
    lines = gpujob("catalog").out.splitlines()
    assert [line for line in lines if line in SECTIONS] == SECTIONS
    found = json.loads(gpujob("catalog", "-o", "json").out)
    assert list(found) == SECTIONS
    assert len(lines) == sum(len(rows) for rows in found.values()) + 3 * len(SECTIONS) - 1


@pytest.mark.parametrize("section", SECTIONS)
def test_one_section_is_a_table_of_its_own(gpujob: Command, section: str) -> None:
    found = json.loads(gpujob("catalog", section, "-o", "json").out)
    assert list(found) == [section]
    assert yaml.safe_load(gpujob("catalog", section, "-o", "yaml").out) == found
    header, *rows = gpujob("catalog", section, "-o", "wide").out.splitlines()
    assert header.split()[-2:] == ["SOURCE", "DATE"]
    assert len(rows) == len(found[section])


def test_every_shipped_row_has_a_source_and_a_day(gpujob: Command) -> None:
    for section, rows in json.loads(gpujob("catalog", "-o", "json").out).items():
        for row in rows:
            assert row["source"], (section, row)
            assert date.fromisoformat(row["checkedOn"])


def test_speeds_say_what_was_measured_and_what_is_an_estimate(gpujob: Command) -> None:
    rows = json.loads(gpujob("catalog", "speeds", "-o", "json").out)["speeds"]
    speeds = {(row["accelerator"], row["work"]): row for row in rows}
    assert (speeds["MI355X", "FineTuning"]["speed"], speeds["MI355X", "FineTuning"]["estimate"]) == ("2.4", True)
    assert speeds["L4", "Training"]["estimate"]
    assert speeds["L4", "Training"]["source"].startswith("efficiency ")
    assert speeds["L4", "Training"]["roofline"].startswith("roofline ")
    assert (speeds["H100-SXM", "Inference"]["errorPercent"], speeds["H100-SXM", "Inference"]["estimate"]) == (0, False)
    assert all(len(row["speed"].replace(".", "").lstrip("0")) == 2 for row in rows)
    assert {row["comparedWith"] for row in rows} == {"H100-SXM"}
    assert rows == sorted(
        rows, key=lambda row: (["Training", "FineTuning", "Inference"].index(row["work"]), -float(row["speed"]))
    )


def test_an_own_catalog_is_shown_and_its_wrong_rows_are_told(gpujob: Command, tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("features: [{name: Mine, levels: runtime, description: ours}, {name: Bad, levels: none}]")
    answer = gpujob("catalog", "features", "--catalog", path)
    assert answer.out.splitlines()[1].split() == ["Mine", "runtime", "ours", "-"]
    assert answer.err == "catalog row left out: Bad: feature Bad: levels must be accelerator, runtime or both\n"


def test_an_unknown_section_is_bad_input(gpujob: Command) -> None:
    answer = gpujob("catalog", "speed")
    assert answer.code == 2
    assert answer.err == (
        "error: the catalog has no section speed; the sections are accelerators, runtimes, stacks, prices, features, "
        "throughputs, models and speeds\n"
    )


def test_the_help_names_every_section(gpujob: Command) -> None:
    told = " ".join(gpujob("catalog", "--help").out.split())
    assert f"{', '.join(SECTIONS[:-1])} or {SECTIONS[-1]}; all when absent" in told


def test_tables_are_narrow_without_their_sources(gpujob: Command) -> None:
    for section in SECTIONS:
        assert max(map(len, gpujob("catalog", section).out.splitlines())) < 160
        assert "SOURCE" in gpujob("catalog", section, "-o", "wide").out.splitlines()[0]


def test_parameters_of_models_are_written_as_people_write_them(gpujob: Command) -> None:
    row = next(line for line in gpujob("catalog", "models").out.splitlines() if line.startswith("llama-3.1-8b "))
    assert row.split()[1] == "8.03B"
    models = json.loads(gpujob("catalog", "models", "-o", "json").out)["models"]
    assert next(each["parameters"] for each in models if each["name"] == "llama-3.1-8b") == 8_030_261_248
