"""kopf as the shell: start and stop, signals and login. No kopf handler is a source of state.

kopf's own watching is unused on purpose: after a relist its on.event reports no DELETED for objects that vanished meanwhile.
"""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any, cast

import kopf
import structlog

from gpujob.cluster.app.app import Operator
from gpujob.cluster.client.kubeconfig import Connection

log = structlog.get_logger(__name__)


def registry_for(
    operator: Operator, connection: Connection, stop: asyncio.Event
) -> tuple[kopf.OperatorRegistry, list[BaseException]]:
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
    def login(**_: Any) -> kopf.ConnectionInfo:
        return credentials(connection)

    return registry, errors


def credentials(connection: Connection) -> kopf.ConnectionInfo:
    """The operator's connection for kopf, which itself requests only the API server's list of groups."""
    token = connection.token
    if token is None and connection.token_file is not None:
        token = Path(connection.token_file).read_text().strip()
    return kopf.ConnectionInfo(
        server=connection.server,
        ca_path=connection.ca_file,
        ca_data=_base64(connection.ca_data),
        insecure=connection.insecure,
        token=token,
        certificate_path=connection.client_cert_file,
        certificate_data=_base64(connection.client_cert_data),
        private_key_path=connection.client_key_file,
        private_key_data=_base64(connection.client_key_data),
    )


def _base64(pem: str | None) -> bytes | None:
    return base64.b64encode(pem.encode()) if pem else None


async def run(operator: Operator, connection: Connection) -> None:
    """Runs until a signal or until a task of the operator fails; raises its error then."""
    stop = asyncio.Event()
    registry, errors = registry_for(operator, connection, stop)
    # Without an identity kopf creates one from the user's name, which a pod's user does not have.
    identity = cast("Any", operator.name)
    await kopf.operator(registry=registry, identity=identity, standalone=True, clusterwide=True, stop_flag=stop)
    if errors:
        raise errors[0]
