"""A process leads only where the CRDs hold what it writes."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from gpujob.cluster.app.served_crds import EVERY, SOON, ServedCrds
from gpujob.cluster.client.api_errors import ApiError, NotFound, Unreachable
from tests.unit.api.test_served_crds import document, without

STATUS = ("properties", "status", "properties", "attempts")
SPEC = ("properties", "spec", "properties", "retries")


class Api:
    """Answers with what it is given, or raises it."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.paths = list(answers), []

    async def get(self, path: str) -> Any:
        self.paths.append(path)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def looked(*answers: Any) -> ServedCrds:
    crds = ServedCrds(Api(*answers))  # type: ignore[arg-type]
    for _ in answers:
        await crds.read_schemas()
    return crds


async def test_before_the_first_look_nobody_leads() -> None:
    assert not (await looked()).may_lead()


async def test_with_whole_crds_a_process_leads() -> None:
    crds = await looked(document())
    assert (crds.may_lead(), crds.hindrances(), crds.warnings()) == (True, [], [])
    assert set(crds.counts().values()) == {0}
    assert len(crds.counts()) == 8


async def test_a_status_field_that_is_lost_keeps_it_from_leading_until_it_is_there() -> None:
    api = Api(without("gpujobs", STATUS), without("gpujobs", STATUS), document())
    crds = ServedCrds(api)  # type: ignore[arg-type]
    with capture_logs() as logs:
        await crds.read_schemas()
        assert not crds.may_lead()
        (said,) = crds.hindrances()
        assert said.startswith(
            "the CRD gpujobs.gpujob.dev lacks status.attempts, which this version writes, so it does not act: "
        )
        assert crds.counts()["gpujobs", "status"] == 1
        await crds.read_schemas()
        await crds.read_schemas()
    assert (crds.may_lead(), crds.hindrances()) == (True, [])
    assert [(line["log_level"], line["event"]) for line in logs] == [
        ("error", "CRD of another version"),
        ("info", "CRDs of this version are served"),
    ]


async def test_a_spec_field_that_is_lost_is_told_and_hinders_nothing() -> None:
    crds = await looked(without("gpujobs", SPEC))
    assert (crds.may_lead(), crds.hindrances()) == (True, [])
    (said,) = crds.warnings()
    assert said.startswith("the CRD gpujobs.gpujob.dev lacks spec.retries, so what people write there is lost: ")
    assert crds.counts()["gpujobs", "spec"] == 1


async def test_a_group_that_is_not_there_keeps_it_from_leading() -> None:
    crds = await looked(NotFound(404, "NotFound", "x"))
    assert not crds.may_lead()
    assert len(crds.hindrances()) == 4
    assert crds.counts()["gpupools", "status"] == 1


@pytest.mark.parametrize("error", [ApiError(403, "Forbidden", "no"), Unreachable(0, "Unreachable", "gone")])
async def test_schemas_that_may_not_be_read_are_told_and_hinder_nothing(error: ApiError) -> None:
    crds = await looked(error)
    assert (crds.may_lead(), crds.hindrances()) == (True, [])
    assert crds.warnings() == [f"whether the CRDs are of this version is unknown: {error}"]
    known = await looked(without("gpujobs", STATUS), error)
    assert not known.may_lead(), "what was seen stays known"


async def test_it_looks_again_soon_while_something_is_wrong() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if not api.answers:
            raise StopAsyncIteration

    api = Api(NotFound(404, "NotFound", "x"), ApiError(403, "Forbidden", "no"), without("gpujobs", SPEC), document())
    with pytest.raises(StopAsyncIteration):
        await ServedCrds(api, sleep).run()  # type: ignore[arg-type]
    assert slept == [SOON, SOON, SOON, EVERY]
