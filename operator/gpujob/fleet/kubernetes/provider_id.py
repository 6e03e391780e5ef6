"""The cloud that a node's provider id names."""

from __future__ import annotations

from typing import Final

_ORACLE: Final = "ocid1."
"""The prefix of Oracle's ids, which have no scheme."""


def provider_of(provider_id: str) -> str:
    """The scheme of a node's provider id (aws of aws:///us-east-1a/i-0), empty if it has none."""
    scheme, found, _ = provider_id.partition("://")
    return scheme[:32] if found else "oci" if provider_id.startswith(_ORACLE) else ""
