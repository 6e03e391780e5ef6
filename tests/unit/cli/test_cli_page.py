"""`plan --html` writes one page that stands alone: sentence, candidates, a picture; and escapes what others wrote."""

from __future__ import annotations

import re
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from cli_room import CATALOG, MIXED, Command, manifest

from gpujob.cli.output.page import round_steps


class Outline(HTMLParser):
    """The tags of a page, and that each is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def written(page: Path) -> tuple[str, Outline]:
    text, outline = page.read_text(), Outline()
    outline.feed(text)
    assert outline.open == []
    assert not {"script", "link", "img", "iframe"} & set(outline.seen)
    return text, outline


def test_a_page_has_the_sentence_the_candidates_and_a_picture(plan: Command, tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    job = manifest("llama", model={"name": "llama-3.1-8b", "method": "LoRA"})
    answer = plan(job, "--html", page)
    text, outline = written(page)
    assert answer.out.splitlines()[0].partition(": ")[2].strip() in text
    drawing = re.search(r"<svg.*</svg>", text)
    assert drawing
    points = ElementTree.fromstring(drawing[0]).findall("circle")
    assert 2 <= len(points) <= outline.seen.count("tr") - 1
    for point in points:
        assert 70 <= float(point.attrib["cx"]) <= 760
        assert 0 <= float(point.attrib["cy"]) <= 290


def test_names_from_a_cluster_cannot_become_part_of_the_page(gpujob: Command, tmp_path: Path) -> None:
    cluster, page = tmp_path / "c.yaml", tmp_path / "p.html"
    evil = "<script>alert(1)</script>"
    cluster.write_text(MIXED.read_text().replace("p5.48xlarge", evil).replace("mi210", "<b>"))
    gpujob("plan", "-f", "-", "--cluster", cluster, "--catalog", CATALOG, "--html", page, stdin=manifest())
    written(page)


def test_a_job_without_candidates_and_one_without_speeds_have_no_picture(gpujob: Command, tmp_path: Path) -> None:
    empty, page = tmp_path / "none.yaml", tmp_path / "p.html"
    empty.write_text("apiVersion: v1\nkind: Node\nmetadata: {name: cpu}\n")
    gpujob("plan", "-f", "-", "--cluster", empty, "--html", page, stdin=manifest())
    assert "<svg" not in written(page)[0]


def test_a_page_that_cannot_be_written_is_bad_input(plan: Command, tmp_path: Path) -> None:
    answer = plan(manifest(), "--html", tmp_path / "no" / "such" / "folder.html")
    assert answer.code == 2
    assert answer.err == (
        f"error: --html {tmp_path}/no/such/folder.html: it cannot be written (No such file or directory); name another file\n"
    )


@pytest.mark.parametrize("verdict", [{"gpuMemory": "500G"}, {"requires": ["Nonsense"]}, {"gpusPerNode": 8}])
def test_every_verdict_has_a_page(plan: Command, tmp_path: Path, verdict: dict[str, object]) -> None:
    page = tmp_path / "p.html"
    answer = plan(manifest(**verdict), "--html", page)
    assert answer.out.split()[0] in written(page)[0]


def test_a_page_says_what_the_terminal_says(plan: Command, tmp_path: Path) -> None:
    page = tmp_path / "p.html"
    answer = plan(manifest("llama", model={"name": "llama-3.1-8b", "method": "LoRA"}), "-o", "wide", "--html", page)
    text, _ = written(page)
    assert "<th>Image</th>" in text
    assert "<th>MEMORY OF EACH GPU</th>" in text
    assert "<th>EXPECTED</th>" in text
    assert "<td>total</td>" in text
    whys = [line.partition(": ")[2] for line in answer.out.splitlines() if line.startswith("Why not ")]
    assert whys
    assert all(escape(why) in text for why in whys)
    assert "The dashed line is the best value" in text
    # The L4 has no price in the tests' catalog.
    assert re.search("Not shown, since price or speed is not known: [^<]*l4-g6-12xlarge-ondemand", text)


def test_a_refusal_s_nearest_fix_is_on_the_page_once(plan: Command, tmp_path: Path) -> None:
    page = tmp_path / "p.html"
    answer = plan(manifest(gpuMemory="500G"), "--html", page)
    fix = next(line for line in answer.out.splitlines() if line.startswith("Nearest fix: ")).partition(": ")[2]
    assert written(page)[0].count(escape(fix)) == 1


def test_what_is_wrong_with_the_job_is_not_repeated_in_each_row(plan: Command, tmp_path: Path) -> None:
    page = tmp_path / "p.html"
    plan(manifest(requires=["Nonsense"]), "--html", page)
    text, _ = written(page)
    assert text.count("Nonsense is no known feature") == 1
    assert "<td>Misconfigured</td><td>the reason above</td>" in text


@pytest.mark.parametrize(
    ("end", "steps"),
    [
        (7.9, [1, 2, 3, 4, 5, 6, 7]),
        (63.3, [10, 20, 30, 40, 50, 60]),
        (0.0173, [0.005, 0.01, 0.015]),
        (1.0, [0.2, 0.4, 0.6, 0.8, 1.0]),
        (1, [0.2, 0.4, 0.6, 0.8, 1.0]),
        (9.9, [2, 4, 6, 8]),
    ],
)
def test_axes_are_marked_in_round_steps(end: float, steps: list[float]) -> None:
    assert round_steps(end) == steps
