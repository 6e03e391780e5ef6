"""What is rendered, word for word: one file of tests/unit/render/golden/ for each sample.

After a wanted change:  UPDATE_GOLDEN=1 pytest tests/unit/render/test_golden_children.py  and read the diff.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml
from samples import SAMPLES

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", SAMPLES)
def test_children_are_as_recorded(name: str) -> None:
    children = SAMPLES[name].children()
    # Through JSON, as the API server gets it: tuples, enums or shared parts would show.
    manifests = [json.loads(json.dumps(m)) for m in (children.job, children.service, children.claims) if m is not None]
    text = yaml.safe_dump_all(manifests, sort_keys=False, width=10_000, allow_unicode=True)
    path = GOLDEN / f"{name}.yaml"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{name} is rendered otherwise; if wanted, set UPDATE_GOLDEN=1"
    assert manifests == [m for m in (children.job, children.service, children.claims) if m is not None]


def test_every_golden_file_belongs_to_a_sample() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*.yaml")) == sorted(SAMPLES)
