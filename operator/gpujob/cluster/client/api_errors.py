"""Every unsuccessful response of the API server, as one tree of errors.

ApiError ─┬─ Unauthorized, Forbidden, NotFound, Gone, Invalid, TooManyRequests, Fenced, BrokenStream, OutcomeUnknown
          ├─ Conflict ─── AlreadyExists
          └─ Unreachable ─── Silent
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpujob.values.untrusted import object_in

JsonObject = dict[str, Any]


class ApiError(Exception):
    """An unsuccessful response of the API server; `status` is the HTTP code, 0 without a response."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.details: Mapping[str, Any] = details or {}
        self.retry_after = retry_after


class Unauthorized(ApiError):
    """401: the token or certificate is not accepted."""


class Forbidden(ApiError):
    """403: RBAC, a quota or an admission policy refuses."""


class NotFound(ApiError):
    """404: no such object, or no such kind."""

    @property
    def is_of_object(self) -> bool:
        """Whether the API server names the object that it does not have; else it does not serve the kind (yet), or another server
        answers, and the object may be there."""
        return bool(self.details.get("name"))


class Conflict(ApiError):
    """409: the precondition (uid or resourceVersion) does not hold."""


class AlreadyExists(Conflict):
    """409 on a create: an object of that name exists."""


class Gone(ApiError):
    """410: the resourceVersion or the continue token is too old; list again."""


class Invalid(ApiError):
    """422: the object breaks the schema or a validation rule; a repetition cannot help."""


class TooManyRequests(ApiError):
    """429: the server throttles; `retry_after` in seconds if it is given."""


class Unreachable(ApiError):
    """No response, and the server has not acted: there was no connection, or the request only reads."""


class Silent(Unreachable):
    """A watch brought no byte for longer than the API server's bookmarks allow."""


class Fenced(ApiError):
    """A write was not sent: another process may have become leader meanwhile."""


class BrokenStream(ApiError):
    """A watch or a list with an invalid part: an endless line, a list without a version."""


class OutcomeUnknown(ApiError):
    """A write was sent, and its outcome is unknown; the caller reads before it writes again."""


_BY_STATUS: Mapping[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


def error_from_status(status: JsonObject, code: int | None = None, retry_after: float | None = None) -> ApiError:
    """The exception for a `Status` object, of an HTTP answer or of an ERROR event: the only place that maps codes."""
    number = code or _as_int(status.get("code")) or 500
    reason = str(status.get("reason") or "Unknown")
    details = status.get("details")
    details = details if isinstance(details, dict) else {}
    if retry_after is None and details.get("retryAfterSeconds"):
        retry_after = float(_as_int(details["retryAfterSeconds"]) or 0) or None
    kind = _BY_STATUS.get(number, ApiError)
    if kind is Conflict and reason == "AlreadyExists":
        kind = AlreadyExists
    return kind(number, reason, str(status.get("message") or ""), details, retry_after)


def error_from_answer(code: int, phrase: str, headers: Mapping[str, str], body: bytes) -> ApiError:
    retry_after = headers.get("Retry-After", "")
    seconds = float(retry_after) if retry_after.isascii() and retry_after.isdigit() else None
    status = object_in(body)
    if status is None or status.get("kind") != "Status":
        # Proxies, and the API server's own throttle, answer in plain text.
        status = {"reason": phrase.replace(" ", ""), "message": body[:512].decode(errors="replace").strip()}
    return error_from_status(status, code, seconds)


def _as_int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
