"""Questions to registries over HTTPS: one manifest, and where it lists no platforms its configuration.

https://github.com/opencontainers/distribution-spec. Every answer is bounded in size and time, and credentials go only to the
registry that they are for and to the token server that it names, never over plain HTTP.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import urlencode, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from gpujob.catalog.images.mirrors import DEFAULT_REGISTRY
from gpujob.cli.registry import manifests
from gpujob.cli.registry.credentials import Login, Logins
from gpujob.cli.registry.manifests import Seen
from gpujob.cli.registry.reference import Reference
from gpujob.values.errors import BadInput
from gpujob.values.untrusted import one_line

_SCHEME: Final = re.compile(r"\s*(basic|bearer)\b(.*)", re.IGNORECASE | re.DOTALL)
_PARAMETER: Final = re.compile(r'([a-z]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))', re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Challenge:
    """One way to log in: `realm` is the address of the token server; a request names `service` and `scope`.

    https://distribution.github.io/distribution/spec/auth/token/
    """

    scheme: Literal["basic", "bearer"]
    realm: str = ""
    service: str = ""
    scope: str = ""

    def url(self, repository: str) -> str:
        """Where a token for pulling a repository comes from."""
        asked = {"service": self.service, "scope": self.scope or f"repository:{repository}:pull"}
        joint = "&" if "?" in self.realm else "?"
        return f"{self.realm}{joint}{urlencode({key: each for key, each in asked.items() if each})}"


def challenge_in(headers: Iterable[str]) -> Challenge | None:
    """The login that WWW-Authenticate asks for, Bearer before Basic; None where it asks for neither."""
    found = [each for header in headers if (each := _read(header))]
    return next((each for each in found if each.scheme == "bearer"), found[0] if found else None)


def _read(header: str) -> Challenge | None:
    matched = _SCHEME.match(header)
    if matched is None:
        return None
    if matched[1].lower() == "basic":
        return Challenge("basic")
    said = {name.lower(): quoted or bare for name, quoted, bare in _PARAMETER.findall(matched[2])}
    if not said.get("realm"):
        return None
    return Challenge("bearer", said["realm"], said.get("service", ""), said.get("scope", ""))


SECONDS: Final = 30
LARGEST: Final = 4 << 20
"""Bytes of a manifest, a configuration or a token, which registries bound alike."""
_REDIRECTS: Final = 3
_REDIRECTED: Final = frozenset({301, 302, 303, 307, 308})


class NotSeen(BadInput):
    """A registry has no such image, refuses it to this user, or does not answer; the message says which, with the remedy."""


class Client:
    """The registries of one run; they give one token for each repository."""

    def __init__(self, logins: Logins, ca_file: str | None = None) -> None:
        """`ca_file` is trusted besides the certificates of the system; proxies are those of the environment."""
        import urllib3

        context = ssl.create_default_context()
        if ca_file is not None:
            try:
                context.load_verify_locations(cafile=ca_file)
            except (OSError, ssl.SSLError) as error:
                raise BadInput(f"--registry-ca {ca_file}: no certificates in PEM can be read: {error}") from error
        proxy = getproxies().get("https")
        self._direct: Any = urllib3.PoolManager(ssl_context=context)
        self._by_proxy: Any = urllib3.ProxyManager(proxy, ssl_context=context) if proxy else self._direct
        self._logins = logins
        self._authorizations: dict[tuple[str, str], str] = {}

    def seen(self, image: Reference) -> Seen:
        """What the registry has under this name; raises NotSeen."""
        body = self._body(image, f"manifests/{image.version}")
        digest, manifest = manifests.digest_of(body), manifests.read(body)
        if image.digest and image.digest != digest:
            raise NotSeen(f"registry {image.registry} answers with {digest} for {image.digest}: do not trust it")
        if manifests.is_index(manifest):
            return Seen(digest, manifests.architectures_of(manifest))
        configuration = manifests.configuration_of(manifest)
        if not configuration:
            raise NotSeen(f"what registry {image.registry} has at this name is no image")
        found = self._body(image, f"blobs/{configuration}")
        if manifests.digest_of(found) != configuration:
            raise NotSeen(f"registry {image.registry} answers with another configuration than its manifest names")
        return Seen(digest, manifests.architecture_of(manifests.read(found)))

    def _body(self, image: Reference, what: str) -> bytes:
        url = f"https://{image.host}/v2/{image.repository}/{what}"
        key = (image.registry, image.repository)
        status, headers, body = self._get(url, self._authorizations.get(key, ""), image.registry)
        if status == 401:
            self._authorizations[key] = self._log_in(image, headers)
            status, headers, body = self._get(url, self._authorizations[key], image.registry)
        if status == 200:
            return body
        raise NotSeen(_why(status, image, bool(self._logins.of(image.registry) != Login())))

    def _log_in(self, image: Reference, headers: Any) -> str:
        """The header Authorization that the registry asks for; raises NotSeen."""
        login = self._logins.of(image.registry)
        challenge = challenge_in(headers.getlist("www-authenticate"))
        if challenge is None:
            raise NotSeen(
                f"registry {image.registry} asks for a login of a kind that is not known: neither Basic nor Bearer"
            )
        if challenge.scheme == "bearer":
            return "Bearer " + self._token(challenge, image, login)
        if not login.basic:
            raise NotSeen(_why(401, image, False))
        return login.basic

    def _token(self, challenge: Challenge, image: Reference, login: Login) -> str:
        if urlsplit(challenge.realm).scheme != "https":
            raise NotSeen(
                f"registry {image.registry} names a token server without TLS, {one_line(challenge.realm)[:200]}"
            )
        if login.refresh:
            scope = challenge.scope or f"repository:{image.repository}:pull"
            form = {
                "grant_type": "refresh_token", "service": challenge.service, "scope": scope,
                "client_id": "gpujob", "refresh_token": login.refresh,
            }  # fmt: skip
            status, _, body = self._send(
                "POST", challenge.realm, {"content-type": _FORM}, image.registry, urlencode(form)
            )
        else:
            status, _, body = self._get(challenge.url(image.repository), login.basic, image.registry)
        said = manifests.read(body) if status == 200 else {}
        token = said.get("token") or said.get("access_token")
        if not (isinstance(token, str) and token.isascii() and token.isprintable()):
            raise NotSeen(_why(status if status != 200 else 401, image, login != Login()))
        return token

    def _get(self, url: str, authorization: str, registry: str) -> tuple[int, Any, bytes]:
        """Status, headers and body; a redirect to another host, as to a store of blobs, is followed without the login."""
        for _ in range(_REDIRECTS + 1):
            headers = {"accept": ", ".join(manifests.ACCEPTED)} | (
                {"authorization": authorization} if authorization else {}
            )
            status, answered, body = self._send("GET", url, headers, registry)
            there = answered.get("location") if status in _REDIRECTED else None
            if not there:
                return status, answered, body
            following = urljoin(url, there)
            if urlsplit(following).scheme != "https":
                raise NotSeen(f"registry {registry} redirects to an address without TLS")
            if urlsplit(following).netloc != urlsplit(url).netloc:
                authorization = ""
            url = following
        raise NotSeen(f"registry {registry} redirects more than {_REDIRECTS} times")

    def _send(
        self, method: str, url: str, headers: dict[str, str], registry: str, form: str | None = None
    ) -> tuple[int, Any, bytes]:
        from urllib3.exceptions import HTTPError

        try:
            pool = self._direct if proxy_bypass(urlsplit(url).netloc) else self._by_proxy
            answer = pool.request(
                method, url, body=form, headers={**headers, "accept-encoding": "identity"}, timeout=SECONDS,
                retries=False, redirect=False, preload_content=False, decode_content=False,
            )  # fmt: skip
            body = answer.read(LARGEST + 1)
            answer.close()
        except HTTPError as error:
            raise NotSeen(_no_answer(registry, error)) from error
        if len(body) > LARGEST:
            raise NotSeen(f"registry {registry} answers with more than {LARGEST >> 20} MiB")
        return answer.status, answer.headers, body


_FORM: Final = "application/x-www-form-urlencoded"


def _no_answer(registry: str, error: Exception) -> str:
    said = one_line(str(error))
    if "certificate" in said.lower():
        return f"the certificate of registry {registry} is not trusted: name its authority with --registry-ca FILE"
    return f"no answer from registry {registry} ({said[:200]}): name the registry that your network has with --image-mirror"


def _why(status: int, image: Reference, logged_in: bool) -> str:
    """What a status of a registry means for its user."""
    there = f"repository {image.repository} of registry {image.registry}"
    if status in (401, 403):
        login = "docker login" + ("" if image.registry == DEFAULT_REGISTRY else f" {image.registry}")
        what = "the login is refused" if logged_in else "a login is needed, or there is no such repository"
        return f"{there}: {what}; log in with `{login}`"
    if status == 404:
        return f"{there} has no {image.version}: choose another row, or copy the image to that registry"
    if status == 429:
        return f"registry {image.registry} limits how often it answers: log in with `docker login`, or try later"
    return f"registry {image.registry} answers with status {status} for {image.repository}"
