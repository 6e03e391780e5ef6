"""`reasons`: what a word of a condition means and what helps; and the lines of other answers that lead to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_room import MIXED, Command, manifest

from gpujob.cli.output.reasons import PAGE, read_more
from gpujob.values.reasons import Reason

SITE = "https://docs.example/gpujob"
BIG = {"gpuMemory": "100G", "placement": {"vendors": ["NVIDIA"]}}


def served(folder: Path, text: str) -> Path:
    """The mixed cluster with an installation that has this text."""
    metadata = {"name": "gpujob-site", "namespace": "gpujob-system"}
    site = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"site.yaml": text}}
    (path := folder / "cluster.yaml").write_text(MIXED.read_text() + "---\n" + yaml.safe_dump(site))
    return path


def last(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("Read more:")]


def test_all_reasons_have_a_row(gpujob: Command) -> None:
    answer = gpujob("reasons")
    assert answer.code == 0
    head, *rows = answer.out.splitlines()
    assert head.split("  ")[0] == "REASON"
    assert [row.split()[0] for row in rows] == [str(reason) for reason in Reason]


def test_a_word_in_any_case_has_its_meaning_and_remedy(gpujob: Command) -> None:
    answer = gpujob("reasons", "memtoosmall", "NoPrice", "-o", "json")
    assert answer.code == 0
    memory, price = json.loads(answer.out)
    assert memory == {
        "reason": "MemTooSmall",
        "section": "A pool can never run the job",
        "meaning": "a GPU has less usable memory than the job or its model needs",
        "remedy": "lower gpuMemory, shard the model over more GPUs, or use larger ones",
    }
    assert (price["reason"], price["section"]) == ("NoPrice", "Warnings, which reject nothing")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("MemToSmall", "error: there is no reason 'MemToSmall'; did you mean MemTooSmall?\n"),
        ("Xyzzy", "error: there is no reason 'Xyzzy'; `kubectl gpujob reasons` lists them\n"),
        ("\x1b[31m", "error: there is no reason '\\x1b[31m'; `kubectl gpujob reasons` lists them\n"),
        ("", "error: there is no reason ''; `kubectl gpujob reasons` lists them\n"),
    ],
)
def test_an_unknown_word_is_refused_with_the_nearest(gpujob: Command, word: str, said: str) -> None:
    answer = gpujob("reasons", word)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == said


def test_an_explanation_ends_with_the_command_for_its_reasons(gpujob: Command, tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(manifest(**BIG))
    answer = gpujob("explain", "-f", job, "--cluster", MIXED)
    assert last(answer.out) == ["Read more: kubectl gpujob reasons VendorExcluded MemTooSmall"]
    words = last(answer.out)[0].split("reasons ")[1].split()
    assert gpujob("reasons", *words).code == 0


def test_where_the_site_is_served_each_reason_has_its_address(gpujob: Command, tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(manifest(**BIG))
    cluster = served(tmp_path, f"docsURL: {SITE}/")
    addresses = [f"Read more: {SITE}/docs/reasons/#{word}" for word in ("VendorExcluded", "MemTooSmall")]
    assert last(gpujob("explain", "-f", job, "--cluster", cluster).out) == addresses
    assert last(gpujob("plan", "-f", job, "--cluster", cluster, "-o", "wide").out) == addresses
    assert last(gpujob("plan", "-f", job, "--cluster", cluster).out) == []


def test_pools_lead_to_the_reasons_of_their_notes(gpujob: Command, tmp_path: Path) -> None:
    cluster = served(tmp_path, f"docsURL: {SITE}")
    assert last(gpujob("pools", "--cluster", MIXED).out) == []
    (line,) = last(gpujob("pools", "--cluster", MIXED, "-o", "wide").out)
    words = line.removeprefix("Read more: kubectl gpujob reasons ").split()
    assert words == ["Cordoned"]
    wide = gpujob("pools", "--cluster", cluster, "-o", "wide").out
    assert last(wide) == [f"Read more: {SITE}/docs/reasons/#{word}" for word in words]


def test_the_page_of_reasons_is_at_that_place_of_the_site() -> None:
    root = Path(__file__).parents[3]
    assert (root / PAGE.rstrip("/")).with_suffix(".md").is_file()
    assert "use_directory_urls" not in (root / "site" / "mkdocs.yml").read_text(), "the default serves PAGE.md as PAGE/"
    text = (root / "docs" / "reasons.md").read_text()
    assert [reason for reason in Reason if f'<a id="{reason}"></a>' not in text] == []


@pytest.mark.parametrize("held", ["Made-Up", "MemTooSmall; rm -rf /", "", "memtoosmall", "x" * 5000])
def test_a_status_adds_no_word_that_is_no_reason(held: str) -> None:
    assert read_more([held], SITE) == []
    assert read_more([held, "Stalled"], "") == [("Read more:", "kubectl gpujob reasons Stalled")]


def test_the_reasons_of_a_status_are_among_them(gpujob: Command, tmp_path: Path) -> None:
    conditions = [
        {"type": "Placed", "status": "True", "reason": "Placed", "message": "it was the cheapest then"},
        {"type": "Stalled", "status": "True", "reason": "Hung", "message": "rank 3 is behind"},
        {"type": "Failed", "status": "False", "reason": "OutOfMemory", "message": "an earlier one"},
    ]
    job: dict[str, Any] = {
        **yaml.safe_load(manifest(gpusPerNode=1)),
        "metadata": {"name": "train", "namespace": "team", "uid": "u"},
        "status": {"state": "Running", "conditions": conditions},
    }
    (path := tmp_path / "cluster.yaml").write_text(MIXED.read_text() + "---\n" + yaml.safe_dump(job))
    answer = gpujob("explain", "train", "-n", "team", "--cluster", path)
    (line,) = last(answer.out)
    assert {"Placed", "Hung"} & {*map(str, Reason)} <= set(line.split("reasons ")[1].split())
    assert "OutOfMemory" not in line
