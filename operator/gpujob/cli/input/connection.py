"""Authenticated HTTP requests to the API server that the kubeconfig names, or to the one that this process runs in."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from gpujob.cli.input.impersonation import Headers, headers_of
from gpujob.values.errors import BadInput

SECONDS: Final = 30
BUSY: Final = 429
MOST_TRIES: Final = 5
"""How often a request to a busy API server is repeated."""
LONGEST_PAUSE: Final = 5.0
"""Seconds between two of these, whatever the server says."""
OFFLINE: Final = "or plan with --cluster FILE from an admin's `kubectl gpujob capture -o FILE`"


@dataclass(frozen=True)
class Connection:
    """Authenticated requests to one API server."""

    configuration: Any
    pool: Any
    acts_as: Headers = ()
    """The headers of another account that the kubeconfig's user acts as."""

    def get(self, path: str, most: int | None = None, body: bytes | None = None) -> tuple[int, bytes]:
        """Status and body of one answer, cut after so many bytes; BadInput when there is none.

        A pod serves a bounded body: it is read as sent, since a few bytes could be unpacked to many. A `body` of JSON makes a POST.
        The request is repeated where an API server is busy or begins to serve a kind, after its Retry-After; to a pod it is not.
        """
        for _ in range(MOST_TRIES - 1 if most is None else 0):
            status, found, pause = self._answered(path, most, body)
            if status != BUSY:
                return status, found
            time.sleep(pause)
        return self._answered(path, most, body)[:2]

    def _answered(self, path: str, most: int | None, body: bytes | None) -> tuple[int, bytes, float]:
        """Status and body of one request, and the seconds after which a busy server may be asked again."""
        from urllib3.exceptions import HTTPError

        url = self.configuration.host.rstrip("/") + path
        sent = {} if most is None else {"accept-encoding": "identity"}
        headers = self._headers(**sent, **({} if body is None else {"content-type": "application/json"}))
        try:
            answer = self.pool.request(
                "GET" if body is None else "POST",
                url,
                body=body,
                headers=headers,
                timeout=SECONDS,
                retries=False,
                redirect=False,
                preload_content=most is None,
                decode_content=most is None,
            )
            if most is not None:
                start = answer.read(most)
                answer.close()
            else:
                start = answer.data
        except HTTPError as error:
            raise self._no_answer(error) from error
        said = answer.headers.get("retry-after", "")
        pause = float(said) if said.isascii() and said.isdigit() and len(said) < 9 else 1.0
        return answer.status, start, min(pause, LONGEST_PAUSE)

    def stream(self, path: str) -> tuple[int, Iterator[bytes]]:
        """Status and body of one answer, whose parts are given as they come; BadInput when there is none."""
        from urllib3 import Timeout
        from urllib3.exceptions import HTTPError

        url = self.configuration.host.rstrip("/") + path
        headers = self._headers(**{"accept": "*/*", "accept-encoding": "identity"})
        try:
            answer = self.pool.request(
                "GET", url, headers=headers, timeout=Timeout(connect=SECONDS, read=None), retries=False, redirect=False,
                preload_content=False, decode_content=False,
            )  # fmt: skip
        except HTTPError as error:
            raise self._no_answer(error) from error
        return answer.status, self._parts(answer)

    def _parts(self, answer: Any) -> Iterator[bytes]:
        from urllib3.exceptions import HTTPError

        try:
            yield from answer.stream(1 << 16)
        except HTTPError as error:
            raise self._no_answer(error) from error
        finally:
            answer.close()

    def _no_answer(self, error: Exception) -> BadInput:
        why = str(getattr(error, "reason", None) or error).rpartition(": ")[2]
        return BadInput(
            f"no answer from {self.configuration.host} ({why}); check --context and --kubeconfig, {OFFLINE}"
        )

    def _headers(self, **more: str) -> Any:
        """What each request sends, with `more` in place of the usual; a header may stand there several times."""
        from urllib3 import HTTPHeaderDict

        # Requested each time: here the client renews an expired token.
        settings = self.configuration.auth_settings().values()
        tokens = {setting["key"]: setting["value"] for setting in settings if setting.get("value")}
        usual = {"accept": "application/json", "accept-encoding": "gzip", "user-agent": "kubectl-gpujob"}
        headers = HTTPHeaderDict(usual | tokens | more)
        for name, value in self.acts_as:
            headers.add(name, value)
        return headers


def connect(kubeconfig: str | None, context: str | None) -> Connection:
    """A connection to the cluster that the kubeconfig names, or to the one that this process runs in."""
    try:
        from kubernetes import client, config
    except ModuleNotFoundError as error:
        raise BadInput(
            f"reading a cluster needs {error.name}: pip install 'gpujob-operator[cli]', {OFFLINE}"
        ) from error
    location = kubeconfig or os.environ.get("KUBECONFIG") or config.KUBE_CONFIG_DEFAULT_LOCATION
    configuration, inside = client.Configuration(), False
    if not (kubeconfig or context or _exists(location)):
        if not os.environ.get("KUBERNETES_SERVICE_HOST"):
            raise BadInput(f"there is no kubeconfig at {location}; name one with --kubeconfig, {OFFLINE}")
        inside = True
    complaints = _Complaints()
    logging.getLogger().addHandler(complaints)
    try:
        if inside:
            config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]
        else:
            config.load_kube_config(location, context, configuration, False)  # type: ignore[no-untyped-call]
    except Exception as error:
        # Whatever a broken kubeconfig raises; the client documents no common class.
        complaints.said.append(str(error).strip() or type(error).__name__)
    finally:
        logging.getLogger().removeHandler(complaints)
    if complaints.said:
        where = "account of this pod" if inside else f"kubeconfig {location}"
        raise BadInput(f"the {where} cannot be used ({complaints.said[0].splitlines()[0]}); fix it, {OFFLINE}")
    acts_as = () if inside else headers_of(location, context)
    return Connection(configuration, client.ApiClient(configuration).rest_client.pool_manager, acts_as)


def namespace_of(kubeconfig: str | None, context: str | None) -> str:
    """The namespace of the kubeconfig's context; `default` if it names none."""
    from kubernetes import config

    location = kubeconfig or os.environ.get("KUBECONFIG") or config.KUBE_CONFIG_DEFAULT_LOCATION
    try:
        contexts, active = config.list_kube_config_contexts(location)  # type: ignore[no-untyped-call]
    except config.ConfigException:
        return "default"  # In a cluster there is no kubeconfig.
    named = next((each for each in contexts if each["name"] == context), active)
    return str(named.get("context", {}).get("namespace") or "default")


class _Complaints(logging.Handler):
    """Errors that the client logs instead of raising them: a failed credential plugin."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps the message."""
        self.said.append(record.getMessage())


def _exists(location: str) -> bool:
    """Whether one of the files exists; KUBECONFIG may list several."""
    return any(os.path.exists(os.path.expanduser(path)) for path in location.split(os.pathsep) if path)
