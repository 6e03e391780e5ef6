"""The connection to one API server, from the pod's service account or from a kubeconfig; and its TLS."""

from __future__ import annotations

import os
import re
import ssl
import tempfile
import time
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import structlog
import yaml
from yarl import URL

from gpujob.cluster.client.api_errors import JsonObject
from gpujob.cluster.client.rate_limit import Clock
from gpujob.values.untrusted import tables

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class UnusableConnection(ValueError):
    """The kubeconfig or the pod's environment gives no usable connection; the message names the field."""


@dataclass(frozen=True, slots=True)
class Connection:
    """The connection to one API server; data fields hold PEM text, and the repr shows no secret."""

    server: str
    ca_file: str | None = None
    ca_data: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    client_cert_file: str | None = None
    client_cert_data: str | None = field(default=None, repr=False)
    client_key_file: str | None = None
    client_key_data: str | None = field(default=None, repr=False)
    server_name: str | None = None
    insecure: bool = False


def connection_in_cluster(
    environ: Mapping[str, str] | None = None, service_account: Path = SERVICE_ACCOUNT
) -> Connection:
    """The connection of a pod by its service account; UnusableConnection outside a pod."""
    environ = os.environ if environ is None else environ
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT", "443")
    token_file = service_account / "token"
    if not host or not token_file.exists():
        raise UnusableConnection(
            f"not in a pod: KUBERNETES_SERVICE_HOST or {token_file} is missing; give a kubeconfig instead"
        )
    address = f"[{host}]" if ":" in host else host
    return Connection(f"https://{address}:{port}", ca_file=str(service_account / "ca.crt"), token_file=str(token_file))


def connection_from_kubeconfig(path: str | Path, context: str | None = None) -> Connection:
    """The connection that a kubeconfig names (its current context by default); relative files are beside it."""
    file = Path(path)
    try:
        config = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UnusableConnection(f"cannot read kubeconfig {file}: {error}") from error
    if not isinstance(config, dict):
        raise UnusableConnection(f"kubeconfig {file} is not a mapping")
    chosen = context or config.get("current-context")
    if not chosen:
        raise UnusableConnection(f"kubeconfig {file} has no current-context; set it or name a context")
    pair = _entry(config, "contexts", "context", chosen, file)
    cluster = _entry(config, "clusters", "cluster", pair.get("cluster"), file)
    user = _entry(config, "users", "user", pair.get("user"), file) if pair.get("user") else {}
    _refuse_unsupported(cluster, user, file)
    return _connection(cluster, user, file)


def _entry(config: JsonObject, section: str, field_name: str, name: object, file: Path) -> JsonObject:
    for entry in tables(config, section):
        if entry.get("name") == name and isinstance(entry.get(field_name), dict):
            found: JsonObject = entry[field_name]
            return found
    raise UnusableConnection(f"kubeconfig {file}: {section} has no entry named {name!r}")


_UNSUPPORTED_USER_FIELDS: Mapping[str, str] = {
    "exec": "exec plugins are not run here; use a token, for example of `kubectl create token`",
    "auth-provider": "auth providers left Kubernetes in 1.26; use a token or a client certificate",
    "username": "basic authentication left Kubernetes in 1.19; use a token or a client certificate",
    "as": "impersonation is not supported; use a token of the account itself",
}


def _refuse_unsupported(cluster: JsonObject, user: JsonObject, file: Path) -> None:
    for field_name, remedy in _UNSUPPORTED_USER_FIELDS.items():
        if user.get(field_name):
            raise UnusableConnection(f"kubeconfig {file}: users[].user.{field_name}: {remedy}")
    if cluster.get("proxy-url"):
        raise UnusableConnection(
            f"kubeconfig {file}: clusters[].cluster.proxy-url: proxies are not supported; give the server's own address"
        )
    if not cluster.get("server"):
        raise UnusableConnection(f"kubeconfig {file}: clusters[].cluster.server is missing")


def _connection(cluster: JsonObject, user: JsonObject, file: Path) -> Connection:
    def beside(value: object) -> str | None:
        return str(file.parent / str(value)) if value else None

    def decoded(section: JsonObject, field_name: str) -> str | None:
        if not section.get(field_name):
            return None
        try:
            return b64decode(section[field_name], validate=True).decode()
        except (TypeError, ValueError) as error:
            raise UnusableConnection(f"kubeconfig {file}: {field_name} is not base64 of PEM text") from error

    return Connection(
        server=str(cluster["server"]),
        ca_file=beside(cluster.get("certificate-authority")),
        ca_data=decoded(cluster, "certificate-authority-data"),
        token=user.get("token") or None,
        token_file=beside(user.get("tokenFile")),
        client_cert_file=beside(user.get("client-certificate")),
        client_cert_data=decoded(user, "client-certificate-data"),
        client_key_file=beside(user.get("client-key")),
        client_key_data=decoded(user, "client-key-data"),
        server_name=cluster.get("tls-server-name") or None,
        insecure=cluster.get("insecure-skip-tls-verify") is True,
    )


def usable(connection: Connection) -> Connection:
    """The connection, whose certificates and token can be read now and be sent to its server; raises UnusableConnection."""
    _check_address(connection)
    tls_context(connection)
    Token(connection, time.monotonic).header()
    return connection


_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
"""What no header and no address has; half a surrogate pair has no bytes."""


_PASSWORD: Final = re.compile(r"//[^/]*@")


def _check_address(connection: Connection) -> None:
    server, name = connection.server, connection.server_name
    try:
        url = URL(server, encoded=True)
        plain = (url.user, url.query_string, url.fragment) == (None, "", "")
        if url.scheme not in ("http", "https") or not url.host or not plain or _CONTROL.search(server):
            raise ValueError("it is not of the form https://HOST:PORT")
        _check_host(url.host)
    except ValueError as error:
        raise UnusableConnection(
            "the server (clusters[].cluster.server of the kubeconfig, or KUBERNETES_SERVICE_HOST and"
            f" KUBERNETES_SERVICE_PORT of the pod) is {_PASSWORD.sub('//', server)!r}: {error}"
        ) from error
    try:
        if name is not None:
            _check_host(name)
    except (TypeError, ValueError) as error:
        raise UnusableConnection(f"clusters[].cluster.tls-server-name is {name!r}: {error}") from error


def _check_host(name: object) -> None:
    """Raises TypeError or ValueError for a name that no TLS handshake can have."""
    if not isinstance(name, str):
        raise TypeError("it is no text")
    handshake = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    handshake.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname=name)


def tls_context(connection: Connection) -> ssl.SSLContext | bool:
    if not connection.server.lower().startswith("https:"):
        return True
    try:
        cafile = None if connection.ca_data else connection.ca_file
        context = ssl.create_default_context(cafile=cafile, cadata=connection.ca_data)
        if connection.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        _load_client_certificate(context, connection)
    except (OSError, ValueError) as error:
        raise UnusableConnection(f"certificates for {connection.server} cannot be loaded: {error}") from error
    return context


def _load_client_certificate(context: ssl.SSLContext, connection: Connection) -> None:
    if connection.client_cert_data is None and connection.client_cert_file is None:
        return
    with ExitStack() as stack:

        def as_file(data: str | None, name: str | None) -> str | None:
            return name if data is None else stack.enter_context(_file_in_memory(data))

        certificate = as_file(connection.client_cert_data, connection.client_cert_file)
        key = as_file(connection.client_key_data, connection.client_key_file)
        context.load_cert_chain(str(certificate), key)


@contextmanager
def _file_in_memory(text: str) -> Iterator[str]:
    """The path of a file that holds a text until the block ends, because the ssl module reads certificates and keys from files
    only.

    On Linux the file is in memory, because the pod's file systems are read-only; elsewhere it is in a private folder.
    """
    if hasattr(os, "memfd_create"):
        with open(os.memfd_create("pem"), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
        return
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        yield file.name


TOKEN_REREAD_AFTER = 60.0
log = structlog.get_logger(__name__)


def _sendable(token: object) -> str:
    """A token that a header can have; raises ValueError, which never names it."""
    if not isinstance(token, str):
        raise ValueError("it is no text")
    if not token or _CONTROL.search(token):
        raise ValueError("it has a control character" if token else "it is empty")
    return token


class Token:
    """The bearer token of a connection; a token file is read again every minute, because bound tokens rotate."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        try:
            self._value = None if connection.token is None else _sendable(connection.token)
        except ValueError as error:
            raise UnusableConnection(f"the token for {connection.server} cannot be sent: {error}") from error
        self._file = Path(connection.token_file) if connection.token_file else None
        self._clock = clock
        self._read_at: float | None = None

    def header(self) -> dict[str, str]:
        """The Authorization header, empty if the connection has certificates only."""
        if self._file and (self._read_at is None or self._clock() - self._read_at >= TOKEN_REREAD_AFTER):
            self._reread(self._file)
        return {"Authorization": f"Bearer {self._value}"} if self._value else {}

    def _reread(self, file: Path) -> None:
        try:
            self._value = _sendable(file.read_text(encoding="utf-8").strip())
        except (OSError, ValueError) as error:
            if self._value is None:
                raise UnusableConnection(f"cannot read token file {file}: {error}") from error
            log.warning("token file unreadable, the last token is used", file=str(file), error=str(error))
        self._read_at = self._clock()

    def renewed(self) -> bool:
        """Whether the file now contains another token than the one that was just refused."""
        if self._file is None:
            return False
        refused, self._read_at = self._value, None
        self.header()
        return self._value != refused
