"""Sizes with the B of their unit: read as Kubernetes writes them."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from gpujob.api.fields.amounts import Memory

MEMORY = TypeAdapter(Memory)


@pytest.mark.parametrize(
    ("written", "read"), [("80GB", "80G"), ("80GiB", "80Gi"), ("1.5TB", "1.5T"), ("512MiB", "512Mi"), ("80G", "80G")]
)
def test_a_unit_with_a_b_is_the_unit(written: str, read: str) -> None:
    assert MEMORY.validate_python(written) == read


@pytest.mark.parametrize("written", ["80B", "80GBB", "80 GB", "GB", "80gb", "80bG", "-1GB"])
def test_other_words_are_refused_as_they_are_written(written: str) -> None:
    with pytest.raises(ValidationError, match=f"{written} is not a memory size of at least 1M"):
        MEMORY.validate_python(written)
