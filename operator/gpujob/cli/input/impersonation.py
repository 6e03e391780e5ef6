"""The account that a kubeconfig's user acts as: headers, as kubectl sends them.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation. The Python client leaves these fields
out, so that a request would have the rights of the account itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gpujob.values.untrusted import Table, table, tables

Headers = tuple[tuple[str, str], ...]


def headers_of(location: str, context: str | None) -> Headers:
    """The headers of the user of a context (None: the current one) of kubeconfigs; empty for a user that acts as itself.

    Of several files, with a colon between, the first that has an entry counts.
    """
    files = [found for path in location.split(os.pathsep) if path and (found := _read(path)) is not None]
    chosen = context or next((each["current-context"] for each in files if each.get("current-context")), None)
    user = table(_entry(files, "contexts", chosen), "context").get("user")
    return tuple(_headers(table(_entry(files, "users", user), "user")))


def _headers(user: Table) -> Iterator[tuple[str, str]]:
    for member, header in (("as", "Impersonate-User"), ("as-uid", "Impersonate-Uid")):
        if user.get(member):
            yield header, str(user[member])
    for group in user.get("as-groups") or ():
        yield "Impersonate-Group", str(group)
    for key, values in table(user, "as-user-extra").items():
        for value in values if isinstance(values, list) else [values]:
            yield f"Impersonate-Extra-{quote(str(key).lower(), safe='')}", str(value)


def _read(path: str) -> dict[str, Any] | None:
    """A kubeconfig; None for what is none, which the client reports itself."""
    import yaml

    try:
        found = yaml.safe_load(Path(path).expanduser().read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None
    return found if isinstance(found, dict) else None


def _entry(files: list[dict[str, Any]], section: str, name: Any) -> Table:
    found = (each for file in files for each in tables(file, section) if each.get("name") == name)
    return next(found, {})
