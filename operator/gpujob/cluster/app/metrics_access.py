"""Access to /metrics with a token: the API server must know its account, and RBAC must let it `get` the path /metrics.

Like controller-runtime and kube-rbac-proxy: a TokenReview gives the account of a token, a SubjectAccessReview its rights. Answers
are kept for a minute, by the hash of the token. The number of requests to the API server is bounded, however many tokens arrive.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from aiohttp import web

from gpujob.cluster.client.api_errors import ApiError
from gpujob.cluster.client.client import ApiClient
from gpujob.cluster.client.paths import Resource
from gpujob.cluster.client.rate_limit import Clock, Patience, TokenBucket
from gpujob.values.untrusted import table

TOKEN_REVIEWS: Final = Resource("authentication.k8s.io", "v1", "tokenreviews", namespaced=False)
ACCESS_REVIEWS: Final = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", namespaced=False)
PATH: Final = "/metrics"
KEPT_FOR: Final = 60.0
"""Seconds for which an answer holds: a right that was taken away ends after them."""
MOST_KEPT: Final = 256
MOST_A_SECOND: Final = 10.0
"""New tokens a second that the API server reviews."""
LONGEST_TOKEN: Final = 16384
_PATIENCE: Final = Patience(timeout=5.0, tries=2, queued=False)

NO_TOKEN: Final = (401, "the metrics need a bearer token of an account that may get the path /metrics")
UNKNOWN_TOKEN: Final = (401, "the API server does not know this token; it may have expired")
TOO_MANY: Final = (429, "too many new tokens; come again in a second")


class MetricsAccess:
    """Answers who may read; asks the API server through the operator's own client."""

    def __init__(self, client: ApiClient, clock: Clock = time.monotonic) -> None:
        self._client, self._clock = client, clock
        self._answers: OrderedDict[bytes, tuple[float, tuple[int, str]]] = OrderedDict()
        self._asks = TokenBucket(MOST_A_SECOND, MOST_A_SECOND, clock)

    async def refusal(self, request: web.Request) -> web.Response | None:
        """The response to who may not read; None for who may."""
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        status, sentence = NO_TOKEN
        if scheme.lower() == "bearer" and 0 < len(token.strip()) <= LONGEST_TOKEN:
            status, sentence = await self._answer(token.strip())
        if status == 200:
            return None
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        return web.Response(text=f"{sentence}\n", status=status, headers=headers)

    async def _answer(self, token: str) -> tuple[int, str]:
        key, now = hashlib.sha256(token.encode()).digest(), self._clock()
        until, answer = self._answers.get(key, (0.0, NO_TOKEN))
        if now < until:
            return answer
        if self._asks.take() > 0:
            return TOO_MANY
        try:
            answer = await self._ask(token)
        except ApiError as error:
            return 503, f"the API server does not say whether this token may read the metrics: {error}"
        self._answers[key] = now + KEPT_FOR, answer
        self._answers.move_to_end(key)
        while len(self._answers) > MOST_KEPT:
            self._answers.popitem(last=False)
        return answer

    async def _ask(self, token: str) -> tuple[int, str]:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        answer = table(await self._client.create(TOKEN_REVIEWS.path(), review, patience=_PATIENCE), "status")
        if answer.get("authenticated") is not True:
            return UNKNOWN_TOKEN
        user = table(answer, "user")
        asked = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {**_who(user), "nonResourceAttributes": {"path": PATH, "verb": "get"}},
        }
        allowed = table(await self._client.create(ACCESS_REVIEWS.path(), asked, patience=_PATIENCE), "status")
        if allowed.get("allowed") is True:
            return 200, ""
        return 403, f"{user.get('username')} may not get {PATH}: bind ClusterRole gpujob-metrics-reader to it"


def _who(user: Mapping[str, object]) -> dict[str, object]:
    """The user of a TokenReview as a SubjectAccessReview names it."""
    names = (("user", "username"), ("uid", "uid"), ("groups", "groups"), ("extra", "extra"))
    return {name: user[held] for name, held in names if user.get(held)}
