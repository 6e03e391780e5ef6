"""Checks of the jobs' namespace: its Pod Security level, its budget, the pools that it may use, and the rights of who asks."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Final

from gpujob.cli.doctor.facts import Facts, Right
from gpujob.cli.doctor.finding import Found, error, fine, unknown, warning
from gpujob.fleet.kubernetes.namespaces import BASELINE, ENFORCE, PRIVILEGED, RESTRICTED
from gpujob.status.attempts.monthly_budget import never, unreadable
from gpujob.values.finding import several
from gpujob.values.vocabulary import Annotation

GROUP: Final = "gpujob.dev"

NEEDED: Final[tuple[tuple[Right, str, str], ...]] = (
    (("create", GROUP, "gpujobs", True), "submit GPUJobs", "gpujob-editor"),
    (("create", "", "pods", True), "create pods, without which a GPUJob is refused", "gpujob-editor"),
)
"""What a user must be allowed: the right, what it is for, and the chart's or Kubernetes' ClusterRole that gives it."""

HELPFUL: Final[tuple[tuple[Right, str, str], ...]] = (
    (("get", "", "pods/log", True), "read the output of jobs", "view"),
    (("list", GROUP, "gpupools", False), "see pools", "gpujob-pool-viewer"),
    (("list", "", "nodes", False), "plan on nodes", ""),
    (("get", "", "pods/proxy", True), "see live speeds in top", ""),
)
"""What a user misses otherwise; without a ClusterRole the command line does with less."""

WITH_LESS: Final = {
    "nodes": "without it plans use the published pools",
    "pods/proxy": "without it top shows those of the status",
}

RIGHTS: Final = tuple(right for right, *_ in (*NEEDED, *HELPFUL))


def pod_security(facts: Facts) -> Iterator[Found]:
    """What pods of jobs in this namespace may not do, though some pools need it."""
    check, where = "pod-security", facts.namespace
    namespace = facts.fleet.namespaces.get(where)
    if namespace is None:
        if facts.fleet.namespaces:
            yield error(
                check, f"there is no namespace {where}", f"kubectl create namespace {where}, or name another with -n"
            )
        return
    level = namespace.level
    privileged = [
        pool.name for pool in facts.fleet.whole_pools if pool.host_devices or (pool.fabric and pool.fabric.host_network)
    ]
    locked = [pool.name for pool in facts.fleet.whole_pools if pool.fabric and pool.fabric.lock_memory]
    remedy = f"kubectl label --overwrite namespace {where} {ENFORCE}={PRIVILEGED}, or use other pools there"
    if level != PRIVILEGED and privileged:
        said = f"namespace {where} enforces {level}, and {several(privileged)} need device files or the network of the host"
        yield warning(check, said, remedy)
    if level != PRIVILEGED and locked:
        said = f"namespace {where} enforces {level}, and gangs on {several(locked)} need the capability IPC_LOCK"
        yield warning(check, said, remedy)
    if level == RESTRICTED:
        said = (
            f"namespace {where} enforces {level}: jobs run as a user that is not root; one with runAsUser: 0 is refused"
        )
        yield fine(check, said)
    elif level in (BASELINE, PRIVILEGED):
        yield fine(check, f"namespace {where} enforces {level}")


def monthly_budgets(facts: Facts) -> Iterator[Found]:
    """The namespaces in which no job starts, because their monthly budget cannot be read or is 0."""
    check = "monthly-budget"
    written = {
        name: each.monthly_budget for name, each in facts.fleet.namespaces.items() if each.monthly_budget is not None
    }
    for name, budget in sorted(written.items()):
        if why := never(name, budget):
            change = ["kubectl", "annotate", "--overwrite", "namespace", name, f"{Annotation.MONTHLY_BUDGET}=5000.00"]
            make = error if unreadable(name, budget) else warning
            yield make(check, why, f"{shlex.join(change)}, with the sum that is meant", name)
        elif name == facts.namespace:
            yield fine(check, f"the monthly budget of namespace {name} can be read")


def pools_of_namespace(facts: Facts) -> Iterator[Found]:
    """Whether any pool lets this namespace in."""
    namespace = facts.fleet.namespaces.get(facts.namespace)
    closed = [pool.name for pool in facts.fleet.whole_pools if namespace and namespace.lacks(pool.namespaces)]
    if closed and len(closed) == len(facts.fleet.whole_pools):
        said = f"no pool is open to namespace {facts.namespace}: {several(closed)} select others"
        first = next(pool for pool in facts.fleet.whole_pools if pool.name in closed)
        asked = " ".join("=".join(label) for label in first.namespaces)
        yield error(
            "namespace", said, f"kubectl label --overwrite namespace {facts.namespace} {asked}, for {first.name}"
        )
    elif closed:
        yield fine(
            "namespace",
            f"{len(facts.fleet.whole_pools) - len(closed)} of {len(facts.fleet.whole_pools)} pools are open to namespace "
            f"{facts.namespace}",
        )


def rights(facts: Facts) -> Iterator[Found]:
    """What the asking account may do in the namespace."""
    check = "rights"
    if facts.live is None:
        return
    if not facts.live.rights:
        yield unknown(check, "the API server does not list this account's rights", "kubectl auth can-i --list")
        return
    refused = 0
    for make, wanted in ((error, NEEDED), (warning, HELPFUL)):
        for right, purpose, role in wanted:
            if facts.live.rights.get(right) is False:
                refused += 1
                where = f" in namespace {facts.namespace}" if right[3] else ""
                remedy = _binding(role, facts, of_namespace=right[3]) if role else WITH_LESS[right[2]]
                yield make(check, f"you may not {right[0]} {right[2]}{where}: {purpose}", remedy)
    if not refused:
        yield fine(check, f"you may submit, see and plan jobs in namespace {facts.namespace}")


def _binding(role: str, facts: Facts, *, of_namespace: bool) -> str:
    """The command by which an admin gives a ClusterRole to the asking account, in the jobs' namespace or in the cluster."""
    user = (facts.live.user if facts.live else "") or "USER"
    words = [f"{role}-of-{re.sub(r'[/%]', '-', user)}", f"--clusterrole={role}", f"--user={user}"]
    kind, where = ("rolebinding", ["-n", facts.namespace]) if of_namespace else ("clusterrolebinding", [])
    return f"{shlex.join(['kubectl', 'create', kind, *words, *where])}, by an admin"
