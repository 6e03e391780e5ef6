"""Which responses to a create concern the child, and which are temporary; whose an object with the name of a child is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from gpujob.cluster.client.api_errors import ApiError, Forbidden, OutcomeUnknown
from gpujob.cluster.client.outage_gate import is_outage
from gpujob.cluster.client.rate_limit import Patience
from gpujob.status.attempts.ownership import is_child
from gpujob.status.records.objects import JobRecord
from gpujob.status.records.read_objects import job_uid, read_child
from gpujob.values.untrusted import table, tables

CREATION: Final = Patience(timeout=40.0)
"""A webhook may take 30 seconds, and what the API server reports about it comes after them."""

_PASSING: Final = re.compile(
    r"not yet ready to handle request"  # an admission plugin of a starting server
    r"|because it is being terminated"
    r"|exceeded quota|status unknown for quota|insufficient quota"
    r"|cannot (create|patch) resource"  # rights that the operator lacks, or that a starting server has not loaded
    r"|caches not synchronized|timed out|timeout"
)
"""Messages of the API server's own admission and authorization about a state, in Kubernetes 1.31 to 1.36."""

_OF_A_MOMENT: Final = (404, 408, 409)
"""HTTP codes that do not judge the child: its namespace is not there yet, the request took too long, a quota changed meanwhile."""

_WEBHOOK_FAILED: Final = re.compile(r"failed calling webhook|failed to call webhook")
"""The message of a 500 after which nothing is created: admission comes before storage."""

_DENIED: Final = re.compile(r"^admission webhook|ValidatingAdmissionPolicy .* denied request")


class ChildRefused(Exception):
    """The API server rejects a child because of its content: an admission policy, or the requests of its pods."""


class ChildNotCreated(Exception):
    """The API server did not create a child now and may later; the message is the API server's, and so is the least wait in seconds.

    `unanswered`: its answer does not say that the request is over, so that it may still create the child.
    """

    def __init__(self, message: str, retry_after: float | None = None, *, unanswered: bool = False) -> None:
        super().__init__(message)
        self.retry_after, self.unanswered = retry_after, unanswered


def refusal(error: ApiError, *, alone: bool = False) -> ChildRefused | ChildNotCreated | None:
    """The meaning of a response to the create of a child; None without a response.

    `alone`: the API server answered a call after it, so that a missing response concerns the child.
    """
    if error.status == 0 and not alone:
        return None
    words = error.message or error.reason
    if error.status == 0 and "Timeout" in error.reason:
        words = f"no answer within {CREATION.timeout:g} s"
    if is_outage(error.status) or error.status in _OF_A_MOMENT or _passes(error):
        unanswered = isinstance(error, OutcomeUnknown) and not _WEBHOOK_FAILED.search(error.message)
        return ChildNotCreated(words, error.retry_after, unanswered=unanswered)
    return ChildRefused(words)


def _passes(error: ApiError) -> bool:
    if not isinstance(error, Forbidden) or _DENIED.search(error.message):
        return False
    causes: list[Any] = tables(error.details, "causes")
    terminating = any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
    return terminating or _PASSING.search(error.message) is not None


def has_another_manager(error: ApiError) -> bool:
    """Whether an apply met fields that another manager has set; every other 409 is of a quota that changed meanwhile."""
    causes: list[Any] = tables(error.details, "causes")
    return error.status == 409 and any(cause.get("reason") == "FieldManagerConflict" for cause in causes)


def is_made_for(held: Any, body: Mapping[str, Any], job: JobRecord) -> bool:
    """Whether an object with the name of a child is the job's; one other than a Job must also equal what would be created now.

    A Job may come from a decision before a crash, with another fleet.
    """
    if body["kind"] == "Job":
        return is_child(read_child(held), job)
    return job_uid(table(held, "metadata")) == job.uid and _holds(held.get("spec"), body["spec"])


def _holds(held: Any, wanted: Any) -> bool:
    """Whether everything that was written is present; the API server adds defaults."""
    if isinstance(wanted, Mapping):
        return isinstance(held, dict) and all(_holds(held.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(held, list) and len(held) == len(wanted) and all(map(_holds, held, wanted))
    return bool(held == wanted)
