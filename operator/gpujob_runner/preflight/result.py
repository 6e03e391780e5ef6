"""The preflight's result as the termination message: JSON of at most 4096 bytes, which the kubelet puts into the pod's status."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from gpujob_runner.preflight.verdict import UNCERTAIN, Finding

VERSION = 1
LIMIT = 4000
"""Bytes that are used of the 4096 that the kubelet keeps."""

TEXT = 300


@dataclass
class Result:
    """The findings, empty if all is as expected, and the facts of the container."""

    findings: list[Finding] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def blocks(self) -> bool:
        """Whether a finding is certain: its reason is not in UNCERTAIN."""
        return any(finding["reason"] not in UNCERTAIN for finding in self.findings)


def message_of(result: Result) -> str:
    """The message; to fit, it drops the facts first, then all but the first finding, then cuts long texts."""
    for findings, facts, most in (
        (result.findings, result.facts, TEXT),
        (result.findings, {}, TEXT),
        (result.findings[:1], {}, TEXT),
        (result.findings[:1], {}, 60),
    ):
        record = {"gpujob": VERSION, "findings": findings, "facts": facts}
        text = json.dumps(_cut(record, most), separators=(",", ":"))
        if len(text) <= LIMIT:
            return text
    return json.dumps({"gpujob": VERSION, "findings": [{"reason": result.findings[0]["reason"]}]})


def _cut(value: Any, most: int) -> Any:
    """The value with every text cut to a length."""
    if isinstance(value, str):
        return value[:most]
    if isinstance(value, dict):
        return {key: _cut(each, most) for key, each in value.items()}
    return [_cut(each, most) for each in value] if isinstance(value, list) else value
