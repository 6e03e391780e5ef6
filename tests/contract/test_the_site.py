"""The documentation site: what is staged for it, that its navigation and links stay within, and that `make docs` builds it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpujob.cli.output.reasons import PAGE
from gpujob.values.reasons import Reason

# One worker: the site is built once, in the checkout.
pytestmark = pytest.mark.xdist_group("site")

ROOT = Path(__file__).parents[2]
SITE = ROOT / "site"


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "pages"
    subprocess.run([sys.executable, str(SITE / "stage.py"), str(folder)], check=True, timeout=60)
    return folder


def navigation(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    for each in entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else ():
        yield from navigation(each)


def test_the_navigation_names_pages_that_are_there_once(staged: Path) -> None:
    text = (SITE / "mkdocs.yml").read_text()
    (nav,) = re.findall(r"^nav:\n(.*)", text, re.DOTALL | re.MULTILINE)
    named = list(navigation(yaml.safe_load(nav)))
    assert len(named) == len(set(named)) > 20
    assert [name for name in named if not (staged / name).is_file()] == []


def test_every_page_of_the_guides_is_in_the_navigation() -> None:
    text = (SITE / "mkdocs.yml").read_text()
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "guides").glob("*.md")]
    assert [path.name for path in pages if f"- {path.relative_to(ROOT)}" not in text] == []


def test_what_a_page_links_is_staged_beside_it(staged: Path) -> None:
    missing = []
    for page in staged.rglob("*.md"):
        for target in re.findall(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)", page.read_text()):
            path = (page.parent / target).resolve()
            if "://" not in target and not target.endswith("/") and not path.exists():
                missing.append(f"{page.relative_to(staged)}: {target}")
    assert missing == []


@pytest.fixture(scope="module")
def site() -> Path:
    """The site as `make docs` builds it, with its own lock: a link or an anchor that leads nowhere ends the build."""
    done = subprocess.run(["make", "docs"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    return ROOT / ".docs" / "site"


def test_the_site_has_every_page_and_the_addresses_that_the_command_line_prints(site: Path, staged: Path) -> None:
    for page in staged.rglob("*.md"):
        path = page.relative_to(staged).with_suffix("")
        folder = path.parent if path.name in ("README", "index") else path
        assert (site / folder / "index.html").is_file(), page
    text = (site / PAGE / "index.html").read_text()
    assert [reason for reason in Reason if f'id="{reason}"' not in text] == []


def test_alerts_link_to_pages_of_the_site(site: Path) -> None:
    rules = (ROOT / "charts" / "gpujob-operator" / "files" / "monitoring" / "rules.yaml").read_text()
    names = set(re.findall(r"/runbooks/([a-z-]+)[.]md", rules))
    assert len(names) > 10
    assert [name for name in names if not (site / "docs" / "runbooks" / name / "index.html").is_file()] == []
