"""The digest of a spec changes with each field that the API server keeps while a child Job exists, and with no other."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gpujob.api.frozen_spec import frozen_digest
from gpujob.api.kinds.gpujob import GPUJobSpec, Placement

FREE: Final = {"suspend", "stall", "activeDeadlineSeconds", "ttlSecondsAfterFinished"}
SPEC: Final[dict[str, Any]] = {"command": ["train"], "gpusPerNode": 8}
FIELDS: Final = [info.alias or name for name, info in GPUJobSpec.model_fields.items()]
OF_PLACEMENT: Final = [info.alias or name for name, info in Placement.model_fields.items()]


@pytest.mark.parametrize("field", [field for field in FIELDS if field != "placement"])
def test_a_field_of_a_spec(field: str) -> None:
    assert (frozen_digest(SPEC | {field: "another"}) == frozen_digest(SPEC)) is (field in FREE)


@pytest.mark.parametrize("field", OF_PLACEMENT)
def test_a_field_of_its_placement(field: str) -> None:
    assert (frozen_digest(SPEC | {"placement": {field: "another"}}) == frozen_digest(SPEC)) is (field == "budget")


def test_the_order_of_fields_is_none_of_it() -> None:
    assert frozen_digest(dict(reversed(SPEC.items()))) == frozen_digest(SPEC) != frozen_digest({})
    assert frozen_digest(SPEC | {"placement": {}}) == frozen_digest(SPEC)
