"""Names of children: a pure function of the job's name, uid and attempt, so that a crash never makes a second set."""

from __future__ import annotations

import hashlib
import re


def child_name(job_name: str, uid: str, attempt: int) -> str:
    """The name of the Job and Service of an attempt: a DNS label of at most 61 characters, beginning with a letter.

    Indexed Jobs take no dots and need room for `-<index>` in a pod's host name.
    """
    cleaned = re.sub(r"[^a-z0-9]+", "-", job_name.lower())[:40].strip("-")
    letter_first = cleaned if cleaned[:1].isalpha() else f"j-{cleaned}"[:40].rstrip("-")
    return f"{letter_first}-{hashlib.sha256(uid.encode()).hexdigest()[:8]}-{attempt}"


def label_value(text: str) -> str:
    """A label value made of any text: at most 63 characters that a label may hold."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)[:63].strip("-._")
