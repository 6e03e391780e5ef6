"""The result of a preflight, read from its init container's state and termination message.

The message is written inside the user's container, so it is hostile input: only known reasons and numbers pass, every text is cut
and on one line, and the sentences are the operator's (`preflight_messages`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpujob.status.records.preflight_messages import SENTENCES, all_well
from gpujob.values.untrusted import one_line, table, tables, whole_number
from gpujob.values.vocabulary import PREFLIGHT, Reason

LONGEST: Final = 4096
"""Bytes of a termination message that the kubelet keeps."""

MOST_FINDINGS: Final = 8
UNCERTAIN: Final = frozenset({Reason.NO_INTERPRETER, Reason.PREFLIGHT_TIMED_OUT, Reason.PREFLIGHT_FAULT})
"""Reasons that are not about the devices: the program runs, and the condition is Unknown."""

NEVER_STARTED: Final = frozenset({"StartError", "ContainerCannotRun", "CreateContainerError", "RunContainerError"})
"""Container runtimes' messages about a missing program."""

SHELL: Final = "/bin/sh"


@dataclass(frozen=True, slots=True)
class Check:
    """The preflight of one pod: whether it is over, and its result; `passed` None: unknown."""

    over: bool
    passed: bool | None = None
    reason: Reason = Reason.PREFLIGHT_PENDING
    message: str = ""


def read_check(status: Mapping[str, Any]) -> Check | None:
    """The preflight in a pod's status; None if it has not begun or does not exist."""
    container = next((c for c in tables(status, "initContainerStatuses") if c.get("name") == PREFLIGHT), {})
    state = table(container, "state")
    if "running" in state:
        return Check(over=False)
    waiting, ended = table(state, "waiting"), table(state, "terminated")
    if ended:
        return _of_end(ended)
    return _without_shell() if waiting and _no_shell(waiting) else None


def verdict_of(checks: Iterable[tuple[str, str, Check | None]], pods: int) -> Check | None:
    """The common result of a job's preflights (each with its pod and node); None until all are over or one fails."""
    known = [(pod, node, check) for pod, node, check in checks if check is not None and check.over]
    worst = next((each for each in known if each[2].passed is False), None)
    if worst is None and len(known) < pods:
        return next((check for _, _, check in known if check.reason is Reason.NO_INTERPRETER), None)
    worst = worst or next((each for each in known if each[2].passed is None), None)
    if worst is None:
        of_all = f"all {pods} pods: " if pods > 1 else ""
        return Check(True, True, Reason.PREFLIGHT_PASSED, f"{of_all}{known[0][2].message}") if known else None
    pod, node, check = worst
    return Check(True, check.passed, check.reason, f"pod {pod} on node {node}: {check.message}")


def _of_end(ended: Mapping[str, Any]) -> Check:
    code = whole_number(ended.get("exitCode"))
    result = _result(ended.get("message"))
    if result is not None:
        return _of_result(*result)
    if _no_shell(ended):
        return _without_shell()
    reason = one_line(str(ended.get("reason", "")))[:64]
    how = f"it ended with exit code {code}" + (
        f" ({reason})" if reason and reason not in ("Error", "Completed") else ""
    )
    text = one_line(str(ended.get("message") or ""))[-200:]
    message = SENTENCES[Reason.PREFLIGHT_FAULT]({"error": f"{how} and left no result" + (f": {text}" if text else "")})
    return Check(True, None if code == 0 else False, Reason.PREFLIGHT_FAULT, message)


def _of_result(findings: list[tuple[Reason, Mapping[str, Any]]], facts: Mapping[str, Any]) -> Check:
    for passed, some in ((False, [f for f in findings if f[0] not in UNCERTAIN]), (None, findings)):
        if some:
            others = f" (and {len(some) - 1} more: {', '.join(r for r, _ in some[1:])})" if some[1:] else ""
            reason, numbers = some[0]
            return Check(True, passed, reason, SENTENCES[reason](numbers) + others)
    return Check(True, True, Reason.PREFLIGHT_PASSED, all_well(facts))


def _result(message: Any) -> tuple[list[tuple[Reason, Mapping[str, Any]]], Mapping[str, Any]] | None:
    """The findings and facts of a message; None if it is not the preflight's."""
    if not isinstance(message, str) or len(message) > LONGEST:
        return None
    try:
        document = json.loads(message)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or document.get("gpujob") != 1 or not isinstance(document.get("findings"), list):
        return None
    findings = []
    for finding in tables(document, "findings")[:MOST_FINDINGS]:
        word = finding.get("reason")
        reason = next((each for each in SENTENCES if each == word), None)
        if reason is None:
            return None
        findings.append((reason, finding))
    return (findings, table(document, "facts")) if len(findings) == len(document["findings"][:MOST_FINDINGS]) else None


def _no_shell(state: Mapping[str, Any]) -> bool:
    text = str(state.get("message", ""))[:2048]
    missing = "no such file or directory" in text or "not found" in text
    return state.get("reason") in NEVER_STARTED and SHELL in text and missing


def _without_shell() -> Check:
    return Check(True, None, Reason.NO_INTERPRETER, SENTENCES[Reason.NO_INTERPRETER]({}))
