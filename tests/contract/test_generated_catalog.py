"""The JSON that is read says what the YAML files say that people write."""

from __future__ import annotations

from gpujob.catalog.files.shipped import FOLDER, main, written


def test_the_generated_catalog_is_that_of_its_sources() -> None:
    assert (FOLDER / "catalog.json").read_bytes() == written(), "run make generate"
    assert main(["--check"]) == 0
