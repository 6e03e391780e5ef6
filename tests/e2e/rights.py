"""What the operator's account may do and what it did, as the API server logged it: every session of tests ends with a comparison.

test_rights_equal_calls shows that each right is used; `assert_granted` that nothing else is called, whatever tests ran.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from tests.e2e.api_server import ApiServer, AuditLog, Object
from tests.e2e.operator_process import NAMESPACE

OF_OPERATOR = "the-operator-writes-children-only.gpujob-operator.gpujob.dev"
OF_PODS = "pods-of-children-are-confined.gpujob-operator.gpujob.dev"
OF_METRICS = {
    ("create", "authentication.k8s.io", "tokenreviews"), ("create", "authorization.k8s.io", "subjectaccessreviews"),
}  # fmt: skip
"""What metrics.authentication of the chart grants besides, as it does in test_metrics_need_a_token."""
RBAC = "/apis/rbac.authorization.k8s.io/v1"
Right = tuple[str, str, str]


def rights(rules: Iterable[dict[str, Any]]) -> set[Right]:
    """The (verb, group, resource) of rules."""
    return {
        (verb, group, resource)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def calls(audit: AuditLog) -> set[Right]:
    """The (verb, group, resource) of all requests so far."""
    found: set[Right] = set()
    for entry in of_operators(audit.since()):
        target = entry.get("objectRef", {})
        if "resource" in target:
            resource = "/".join(filter(None, (target["resource"], target.get("subresource"))))
            key = (entry["verb"], target.get("apiGroup", ""), resource)
            found.add(key)
            if (entry["verb"], entry["responseStatus"]["code"]) == ("patch", 201):
                # A server-side apply of what is not there yet is authorized as a create too.
                found.add(("create", *key[1:]))
    return found


DISCOVERY = re.compile(r"/version|/api(/v1)?|/apis(/[^/]+(/[^/]+)?)?|/openapi/v3/apis/gpujob[.]dev/v1alpha1")
"""Paths that say which groups and kinds there are, and their schemas: everyone may read them, and kopf does at its start."""


def granted(api: ApiServer) -> set[Right]:
    """What the chart grants to the operator's account now."""
    role = api.get(f"{RBAC}/clusterroles", "gpujob-operator")["rules"]
    own = api.get(f"{RBAC}/namespaces/{NAMESPACE}/roles", "gpujob-operator")["rules"]
    return rights(role) | rights(own)


def assert_granted(api: ApiServer, audit: AuditLog) -> None:
    """Every call so far has its right, and neither RBAC nor a policy of the chart refused one."""
    made = calls(audit)
    others = {
        entry["requestURI"].partition("?")[0] for entry in of_operators(audit.since()) if "objectRef" not in entry
    }
    wrong = {
        "called without a right of the chart": made - granted(api) - OF_METRICS,
        "refused by RBAC": audit.forbidden(),
        "refused by a policy of the chart": denied_by_own_policies(audit),
        "paths of no kind": [path for path in others if not DISCOVERY.fullmatch(path)],
    }
    assert not any(wrong.values()), wrong


def of_operators(entries: Iterable[Object]) -> Iterable[Object]:
    """The requests of operators; a test that has their token uses kubectl."""
    return (entry for entry in entries if not entry.get("userAgent", "").startswith("kubectl/"))


def denied_by_own_policies(audit: AuditLog, mark: int = 0) -> list[str]:
    """What the chart's admission policies refused of the operators' calls."""
    return refusals(of_operators(audit.since(mark)))


def refusals(entries: Iterable[Object]) -> list[str]:
    """The messages with which the chart's admission policies refused a request."""
    said = (str(entry["responseStatus"].get("message", "")) for entry in entries)
    return [each for each in said if OF_OPERATOR in each or OF_PODS in each]
