"""The chart as it is published: its image is set, and Chart.yaml has Artifact Hub's annotations `images` and `changes`.

https://artifacthub.io/docs/topics/annotations/helm/. `crds` and `crdsExamples` stand in Chart.yaml itself; these two would be out
of date there with every change.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

from charts.__main__ import files
from release.changelog import Change
from release.related_images import Image


class NoPlace(ValueError):
    """A line of the chart that a release changes is not there once."""


def write_chart(
    source: Path, folder: Path, repository: str, digest: str, images: Iterable[Image], changes: Sequence[Change]
) -> None:
    """Copies the chart to `folder`, for `helm package`; the operator's image is `repository` at `digest`.

    The schema and the README of the copy follow its values.yaml, as in the repository.
    """
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder)
    values, chart = folder / "values.yaml", folder / "Chart.yaml"
    text = _with(values.read_text(), '  repository: ""\n', f"  repository: {repository}\n")
    text = _with(
        text,
        "The operator's image. None is published yet: build images/operator and push it to your registry.",
        "The operator's image.",
    )
    values.write_text(_with(text, '  digest: ""\n', f"  digest: {digest}\n"))
    named = [{"name": "gpujob-operator", "image": f"{repository}@{digest}", "platforms": ["linux/amd64"]}]
    jobs = [
        # They are of others and up to 30 GB large: listed for mirrors, not scanned.
        {"name": each.name, "image": each.reference, "whitelisted": True,
         "platforms": [f"linux/{cpu}" for cpu in each.cpu_architectures]}
        for each in images
    ]  # fmt: skip
    listed = [{"kind": each.kind, "description": each.description} for each in changes]
    added = _annotation("images", [*named, *jobs]) + _annotation("changes", listed)
    chart.write_text(_with(chart.read_text(), "annotations:\n", f"annotations:\n{added}"))
    for path, content in files(folder).items():
        path.write_bytes(content)


def _annotation(name: str, rows: list[dict[str, Any]]) -> str:
    """An annotation of Chart.yaml, whose value is text in YAML."""
    text = yaml.safe_dump(rows, sort_keys=False, allow_unicode=True, width=1_000_000)
    return f"  artifacthub.io/{name}: |\n" + "".join(f"    {line}\n" for line in text.splitlines())


def _with(text: str, old: str, new: str) -> str:
    if text.count(old) != 1:
        raise NoPlace(f"{old.strip()!r} stands {text.count(old)} times in the chart, and a release changes it once")
    return text.replace(old, new)
