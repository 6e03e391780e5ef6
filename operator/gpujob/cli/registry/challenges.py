"""What a registry asks for in WWW-Authenticate: a Basic login, or a Bearer token of a token server.

https://distribution.github.io/distribution/spec/auth/token/
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlencode

_SCHEME: Final = re.compile(r"\s*(basic|bearer)\b(.*)", re.IGNORECASE | re.DOTALL)
_PARAMETER: Final = re.compile(r'([a-z]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))', re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Challenge:
    """One way to log in. `realm` is the address of the token server; `service` and `scope` are what it is asked for."""

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
