"""kopf as the shell: start, stop and signals. No kopf handler is a source of state.

kopf's own watching is unused on purpose: after a relist its on.event reports no DELETED for objects that vanished meanwhile. It
gets no credentials either, so it makes no request: at the start it would list the API server's groups, and end the process where
that fails nine times, or once with 401.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

import kopf
import structlog

from gpujob.cluster.app.app import Operator

log = structlog.get_logger(__name__)


def registry_for(operator: Operator, stop: asyncio.Event) -> tuple[kopf.OperatorRegistry, list[BaseException]]:
    """kopf's handlers for one operator: start, stop, login; and the list that records its error."""
    registry = kopf.OperatorRegistry()
    running: list[asyncio.Task[None]] = []
    errors: list[BaseException] = []

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            errors.append(task.exception() or RuntimeError("ended"))
            log.error("operator ends, a part of it died", error=repr(task.exception()))
        stop.set()

    @kopf.on.startup(registry=registry)
    async def start(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.posting.enabled = False
        settings.scanning.disabled = True
        settings.peering.standalone = True
        task = asyncio.create_task(operator.run(), name="operator")
        task.add_done_callback(ended)
        running.append(task)

    @kopf.on.cleanup(registry=registry)
    async def end(**_: Any) -> None:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    @kopf.on.login(registry=registry)
    async def never(**_: Any) -> None:
        await asyncio.Event().wait()

    return registry, errors


async def run(operator: Operator) -> None:
    """Runs until a signal or until a task of the operator fails; raises its error then."""
    stop = asyncio.Event()
    registry, errors = registry_for(operator, stop)
    # Without an identity kopf creates one from the user's name, which a pod's user does not have.
    identity = cast("Any", operator.name)
    await kopf.operator(registry=registry, identity=identity, standalone=True, clusterwide=True, stop_flag=stop)
    if errors:
        raise errors[0]
