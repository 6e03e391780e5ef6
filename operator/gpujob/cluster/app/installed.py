"""`python -m gpujob.cluster.app.installed [SECONDS]`: checks that the operator of this cluster works; `helm test` runs it in a pod.

It submits a suspended GPUJob, for which no child is created, waits until the operator has written its plan, prints the plan and
deletes the job. The content of the plan does not matter: a cluster without GPUs has a working operator too.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
import uuid
from collections.abc import Sequence
from typing import Any, Final

from gpujob.cluster.app.app import find_connection
from gpujob.cluster.client.api_errors import ApiError
from gpujob.cluster.client.client import ApiClient
from gpujob.cluster.client.kubeconfig import UnusableConnection
from gpujob.cluster.client.paths import Resource
from gpujob.values.untrusted import one_line, table, tables
from gpujob.values.vocabulary import API_VERSION, GROUP, VERSION

GPUJOBS: Final = Resource(GROUP, VERSION, "gpujobs")
SECONDS: Final = 60.0
"""How long the operator may take: a new leader waits for the Lease of one that was killed."""


async def plan(client: ApiClient, namespace: str, name: str, seconds: float) -> dict[str, Any] | None:
    """The status of a suspended job once the operator wrote it, None where it wrote none in time; the job is gone then."""
    body = {
        "apiVersion": API_VERSION,
        "kind": "GPUJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"suspend": True, "command": ["true"]},
    }
    made = await client.create(GPUJOBS.path(namespace), body)
    try:
        return await _planned(client, GPUJOBS.path(namespace, name), time.monotonic() + seconds)
    finally:
        await client.delete(GPUJOBS.path(namespace, name), uid=made["metadata"]["uid"])


async def _planned(client: ApiClient, path: str, until: float) -> dict[str, Any] | None:
    while time.monotonic() < until:
        status = dict(table(await client.get(path), "status"))
        if status.get("state"):
            return status
        await asyncio.sleep(0.5)
    return None


def sentence(status: dict[str, Any]) -> str:
    """What the operator planned."""
    said = next((str(each.get("message")) for each in tables(status, "conditions") if each.get("message")), "")
    return f"the operator planned a job: {one_line(str(status.get('state')))}: {one_line(said)}"


async def check(namespace: str, seconds: float) -> int:
    """The exit code: 0 when the operator planned, 1 when it did not."""
    async with ApiClient(find_connection()) as client:
        status = await plan(client, namespace, f"installed-{uuid.uuid4().hex[:8]}", seconds)
    if status is None:
        print(f"no operator wrote a status within {seconds:g} s: look at its log and at /readyz", file=sys.stderr)
        return 1
    print(sentence(status))
    return 0


def main(arguments: Sequence[str] = ()) -> int:
    """Runs the check in the namespace of GPUJOB_NAMESPACE."""
    try:
        seconds = float(arguments[0]) if arguments else SECONDS
        return asyncio.run(check(os.environ.get("GPUJOB_NAMESPACE") or "default", seconds))
    except (ApiError, UnusableConnection) as error:
        print(f"the job could not be submitted, read or deleted: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
