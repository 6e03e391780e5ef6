"""The arguments of a command line: one value for all verbs, each of which reads the members that its options set."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

TABLES: Final = ("table", "wide")


@dataclass(frozen=True)
class Request:
    """The value of each option by its name; an option that the verb does not have keeps its default."""

    filename: str | None = None
    name: str | None = None
    why_not: str | None = None
    cluster: str | None = None
    kubeconfig: str | None = None
    context: str | None = None
    catalog: str | None = None
    namespace: str | None = None
    all_namespaces: bool = False
    output: str = TABLES[0]
    all: bool = False
    html: str | None = None
    no_color: bool = False
    sections: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    price: tuple[str, ...] = ()
    image_mirror: tuple[str, ...] = ()
    registry_ca: str | None = None
    runtimes: tuple[str, ...] = ()
    operator_namespace: str = ""
    every: str = ""
    once: bool = False
    follow: bool = False
    rank: str | None = None
    attempt: str | None = None
    for_: str = ""
    timeout: str | None = None
    by: str = ""
    since: str = ""
    before_uninstall: bool = False

    @property
    def in_tables(self) -> bool:
        """Whether the output is for people."""
        return self.output in TABLES

    @property
    def wide(self) -> bool:
        """Whether the output is wide."""
        return self.output == "wide"

    @property
    def color(self) -> bool:
        """Whether colours are allowed; https://no-color.org: any value but the empty one forbids them."""
        return not self.no_color and not os.environ.get("NO_COLOR")
