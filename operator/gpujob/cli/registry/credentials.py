"""The user's logins for registries, as `docker login` and `podman login` keep them.

Read are the `auths`, `credHelpers` and `credsStore` of config.json; a helper is a program that Docker's tools ask too.
https://docs.docker.com/reference/cli/docker/login/#credential-stores
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpujob.catalog.images.mirrors import DEFAULT_REGISTRY
from gpujob.values.errors import BadInput
from gpujob.values.untrusted import Table, table

_KEYS_OF_DEFAULT: Final = ("https://index.docker.io/v1/", "index.docker.io", DEFAULT_REGISTRY)
_HELPER: Final = re.compile(r"[A-Za-z0-9_-]+")
_TOKEN: Final = "<token>"
"""The user name by which a helper says that its secret is a refresh token."""
_SECONDS: Final = 30


@dataclass(frozen=True, slots=True)
class Login:
    """A user with his password, or a refresh token alone."""

    user: str = ""
    password: str = ""
    refresh: str = ""

    @property
    def basic(self) -> str:
        """The header Authorization of a Basic login; empty where there is no user."""
        if not self.user:
            return ""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


class Logins:
    """The logins of one config.json."""

    def __init__(self, config: Table, path: str = "config.json") -> None:
        self._config, self._path = config, path

    def of(self, registry: str) -> Login:
        """The login for a registry; an empty one where the user has none. BadInput where his helper cannot be asked."""
        keys = _KEYS_OF_DEFAULT if registry == DEFAULT_REGISTRY else (registry, f"https://{registry}")
        helpers = table(self._config, "credHelpers")
        for key in keys:
            if isinstance(helper := helpers.get(key), str):
                return self._ask(helper, key)
        auths = table(self._config, "auths")
        for key in keys:
            if (login := self._read(table(auths, key), key)) is not None:
                return login
        store = self._config.get("credsStore")
        return self._ask(store, keys[0]) if isinstance(store, str) and store else Login()

    def _read(self, entry: Table, key: str) -> Login | None:
        refresh, auth = entry.get("identitytoken"), entry.get("auth")
        if isinstance(refresh, str) and refresh:
            return Login(refresh=refresh)
        if not (isinstance(auth, str) and auth):
            return None
        try:
            user, colon, password = base64.b64decode(auth, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            user = colon = password = ""
        if not colon:
            raise BadInput(f"{self._path}: auths[{key!r}].auth is not base64 of user:password; log in to {key} again")
        return Login(user, password)

    def _ask(self, helper: str, key: str) -> Login:
        program = f"docker-credential-{helper}"
        if not _HELPER.fullmatch(helper):
            raise BadInput(f"{self._path}: {helper!r} is no name of a credential helper")
        try:
            done = subprocess.run(
                [program, "get"], input=key, capture_output=True, text=True, check=False, timeout=_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BadInput(
                f"{self._path} names the credential helper {program}, which cannot be run: {error}"
            ) from error
        if done.returncode:
            # Helpers say so of a registry for which they have nothing; others then need no login.
            return Login()
        try:
            said = json.loads(done.stdout)
            user, secret = str(said["Username"]), str(said["Secret"])
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(f"{program} get: the answer is not JSON with Username and Secret") from error
        return Login(refresh=secret) if user == _TOKEN else Login(user, secret)


def read_logins(environment: Mapping[str, str]) -> Logins:
    """The logins of the file that REGISTRY_AUTH_FILE names, of Docker's or of podman's; none where there is no file."""
    for path in _paths(environment):
        try:
            config = json.loads(path.read_text())
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise BadInput(f"{path}: is no readable JSON with logins of registries: {error}") from error
        return Logins(config if isinstance(config, dict) else {}, str(path))
    return Logins({})


def _paths(environment: Mapping[str, str]) -> list[Path]:
    named = environment.get("REGISTRY_AUTH_FILE")
    if named:
        return [Path(named)]
    folder, runtime = environment.get("DOCKER_CONFIG"), environment.get("XDG_RUNTIME_DIR")
    docker = Path(folder) if folder else Path(os.path.expanduser("~")) / ".docker"
    return [docker / "config.json", *([Path(runtime) / "containers" / "auth.json"] if runtime else [])]
