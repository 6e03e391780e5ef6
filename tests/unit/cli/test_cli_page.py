"""`plan --html` writes one page that stands alone: sentence, candidates, a picture; and escapes what others wrote."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from cli_room import CATALOG, MIXED, Command, manifest


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
