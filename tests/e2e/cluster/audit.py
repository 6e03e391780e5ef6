"""The audit policy: one log line for each request of the operator, nothing for anyone else.

Tests read the log to prove that the chart's RBAC suffices and to count the operator's writes.
"""

import os
from datetime import datetime
from pathlib import Path

import yaml

OPERATOR = "system:serviceaccount:gpujob-system:gpujob-operator"
SECOND = "system:serviceaccount:gpujob-second:second-gpujob-operator"
"""The account of the second release of test_two_releases."""
_STARTS = "kube-apiserver-starts"
"""A file beside the logs of a cluster."""


def audited_users() -> list[str]:
    """Whose requests are logged: CLUSTER_AUDIT_USERS (separated by commas), or the operators of the chart."""
    named = os.environ.get("CLUSTER_AUDIT_USERS", "")
    return [user.strip() for user in named.split(",") if user.strip()] or [OPERATOR, SECOND]


def policy(users: list[str]) -> str:
    """The policy file; rules cannot hold wildcards for users, so each is named."""
    rules = [{"level": "Metadata", "users": users}, {"level": "None"}]
    head = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"]}
    return yaml.safe_dump({**head, "rules": rules}, sort_keys=False)


def note_start(logs: Path, began: datetime, ready: datetime) -> None:
    """Notes when an API server was started and when it was ready: in between it refuses what it allows later, since it listens before
    it has read the roles.
    """
    with (logs / _STARTS).open("a") as file:
        file.write(f"{began.isoformat()} {ready.isoformat()}\n")


def starts_of(logs: Path) -> list[tuple[datetime, datetime]]:
    """When the API server of a cluster was started, and was ready, each time so far."""
    lines = (logs / _STARTS).read_text().splitlines() if (logs / _STARTS).exists() else []
    pairs = [line.split() for line in lines]
    return [(datetime.fromisoformat(began), datetime.fromisoformat(ready)) for began, ready in pairs]
