"""Watches whether the cluster serves the CRDs that this version was built with; without them it must not lead."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from gpujob.api.served import MODELS, OPENAPI, Missing, missing_in
from gpujob.cluster.client.api_errors import ApiError, NotFound
from gpujob.cluster.client.client import ApiClient

log = structlog.get_logger(__name__)

EVERY: Final = 300.0
"""Seconds between two reads while all is there: an upgrade or a rollback of the chart changes CRDs of a running operator."""
SOON: Final = 5.0
"""The same while something is missing, or could not be read."""


class ServedCrds:
    """What the last read found; nothing is known before the first one."""

    def __init__(self, client: ApiClient, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self.missing: tuple[Missing, ...] | None = None
        self.unread = ""
        """Why the schemas could not be read the last time; empty: they were."""
        self._client, self._sleep = client, sleep

    def may_lead(self) -> bool:
        """Whether what this process writes stays; also where the schemas cannot be read, which the log reports."""
        return bool(self.unread) if self.missing is None else not any(each.forbids for each in self.missing)

    def hindrances(self) -> list[str]:
        """Why the operator does not act, a line each."""
        return [each.sentence() for each in self.missing or () if each.forbids]

    def warnings(self) -> list[str]:
        """What does not keep it from acting, a line each."""
        sentences = [each.sentence() for each in self.missing or () if not each.forbids]
        return [
            *sentences,
            *([f"whether the CRDs are of this version is unknown: {self.unread}"] if self.unread else []),
        ]

    def counts(self) -> dict[tuple[str, str], int]:
        """Fields that are missing by kind and part; of a kind that is not served the status counts 1."""
        found = {each.kind: each for each in self.missing or ()}
        parts = {kind: found.get(kind, Missing(kind)) for kind in MODELS}
        return {
            (kind, part): count
            for kind, each in parts.items()
            for part, count in (("spec", len(each.spec)), ("status", len(each.status) + (not each.served)))
        }

    async def run(self) -> None:
        """Reads them until cancelled."""
        while True:
            await self.read_schemas()
            await self._sleep(SOON if self.unread or self.missing else EVERY)

    async def read_schemas(self) -> None:
        """Reads the schemas once. What was known stays known while the API server gives no answer."""
        try:
            found = missing_in(await self._client.get(OPENAPI))
            self.unread = ""
        except NotFound:
            found, self.unread = missing_in({}), ""
        except ApiError as error:
            if not self.unread:
                log.warning("schemas of the CRDs not read", error=str(error))
            self.unread = str(error) or type(error).__name__
            return
        before, self.missing = self.missing, found
        if found != (before or ()):
            for each in found:
                (log.error if each.forbids else log.warning)("CRD of another version", error=each.sentence())
            if not found:
                log.info("CRDs of this version are served")
