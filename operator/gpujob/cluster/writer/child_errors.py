"""Which answers to a create are about the child, and which pass by themselves."""

from __future__ import annotations

import re
from typing import Any, Final

from gpujob.cluster.client.api_errors import ApiError, Forbidden, NotFound
from gpujob.cluster.client.outage_gate import is_outage
from gpujob.values.untrusted import tables

_PASSING: Final = re.compile(
    r"not yet ready to handle request"  # an admission plugin of a server that starts
    r"|because it is being terminated"
    r"|exceeded quota|status unknown for quota|insufficient quota"
    r"|cannot (create|patch) resource"  # rights that the operator lacks, or that a server that starts has not loaded
    r"|caches not synchronized|timed out|timeout"
)
"""What the API server's own admission and authorization say of a state, in Kubernetes 1.31 to 1.36."""

_DENIED: Final = re.compile(r"^admission webhook|ValidatingAdmissionPolicy .* denied request")


class ChildRefused(Exception):
    """The API server refuses a child for what it is: an admission policy, or what the job asks its pods to be."""


class ChildNotCreated(Exception):
    """The API server did not create a child just now and may later; the message is the API server's."""


def refusal(error: ApiError) -> ChildRefused | ChildNotCreated | None:
    """What an answer to the create of a child means; None where no answer came."""
    if error.status == 0:
        return None
    words = error.message or error.reason
    if is_outage(error.status) or isinstance(error, NotFound) or _passes(error):
        return ChildNotCreated(words)
    return ChildRefused(words)


def _passes(error: ApiError) -> bool:
    if not isinstance(error, Forbidden) or _DENIED.search(error.message):
        return False
    causes: list[Any] = tables(error.details, "causes")
    terminating = any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
    return terminating or _PASSING.search(error.message) is not None
