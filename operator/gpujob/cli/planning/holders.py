"""Who holds what a job waits for, and until when: GPUJobs by their status, other pods by their names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpujob.cli.planning import claim_users
from gpujob.cli.planning.beside_gpus import Short, requests, shares, short_on
from gpujob.fleet.devices.from_slices import taken_from
from gpujob.fleet.dra.inventory import read_inventory
from gpujob.fleet.dra.resource_slices import Key, read_claim
from gpujob.fleet.policy.resource_quota import is_used_by_pods
from gpujob.placement.capacity.node_fit import able_nodes
from gpujob.placement.capacity.pod_resources import needs_later
from gpujob.status.attempts.waits import read_time
from gpujob.values.finding import counted, listed
from gpujob.values.untrusted import one_line, table, tables, whole_number
from gpujob.values.vocabulary import Outcome, Reason, Verdict

if TYPE_CHECKING:
    from gpujob.catalog.catalog import Catalog
    from gpujob.fleet.kubernetes.objects import Pod, Resources
    from gpujob.fleet.pools.node import PoolNode
    from gpujob.fleet.pools.pool import Pool
    from gpujob.fleet.sources.cluster_file import ClusterObjects
    from gpujob.placement.request.demand import Demand
    from gpujob.placement.scoring.candidate import Decision
    from gpujob.schedule.queue import QueueDecision


class Claimed(NamedTuple):
    """Devices of a node that a claim holds."""

    namespace: str
    name: str
    """The pod for which the claim is reserved, else the claim."""
    pod: Pod | None
    """The pod, if the cluster description has it."""
    reserved: bool
    """Whether a pod is named."""
    node: str
    devices: int


def claimed_devices(
    objects: ClusterObjects, resource: str, nodes: Collection[str] | None, catalog: Catalog
) -> Iterator[Claimed]:
    """What claims hold of a resource on these nodes (None: on all); not what their pods request by the resource's name, which is
    counted with the pods.
    """
    claims = [item for item in objects.others if item.get("kind") == "ResourceClaim"]
    if not claims:
        return
    inventory = read_inventory(objects.others, objects.pods)
    held_on: dict[Key, str] = {
        key: node.name
        for node in objects.nodes
        if nodes is None or node.name in nodes
        for key in taken_from(node, resource, inventory, catalog)
    }
    pods = {pod.uid: pod for pod in objects.pods if pod.uid}
    by_name = {(pod.namespace, pod.extended_claim) for pod in objects.pods if pod.extended_claim and not pod.terminal}
    for item in claims:
        claim, metadata = read_claim(item), table(item, "metadata")
        namespace, name = str(metadata.get("namespace") or "default"), str(metadata.get("name"))
        pod = next((pods[uid] for uid in claim.pods if uid in pods), None)
        if (claim.extended or (namespace, name) in by_name) and pod is not None and not pod.terminal:
            continue
        user = _user(item)
        for node, count in sorted(_counted(claim.devices, held_on).items()):
            yield Claimed(namespace, user or name, pod, bool(user), node, count)


def _counted(devices: tuple[Key, ...], held_on: Mapping[Key, str]) -> Mapping[str, int]:
    """How many of the devices are on each node."""
    found: dict[str, int] = defaultdict(int)
    for device in devices:
        if device in held_on:
            found[held_on[device]] += 1
    return found


def _user(claim: Mapping[str, Any]) -> str:
    """The first pod for which a claim is reserved; empty if there is none."""
    users = (
        each.get("name") for each in tables(table(claim, "status"), "reservedFor") if each.get("resource") == "pods"
    )
    return next((name for name in users if isinstance(name, str) and name), "")


class _Key(NamedTuple):
    """What holds GPUs: a GPUJob by its uid, else a pod or a claim by its name."""

    namespace: str
    job_uid: str = ""
    name: str = ""
    kind: str = "Pod"


MOST: Final = 5
"""Holders that are listed by name."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A GPUJob or a pod with GPUs that a job waits for."""

    kind: str
    """GPUJob, Pod or ResourceClaim; Plan for a job that the same plan places first."""
    namespace: str
    name: str
    gpus: int
    nodes: tuple[str, ...]
    percent: int | None = None
    """How much a GPUJob has done; None if its program does not say."""
    ends: datetime | None = None
    """When a GPUJob ends at its speed; None if unknown."""
    beside: str = ""
    """CPU, memory or disk that it holds on nodes whose GPUs are free, or claims that it mounts, in words; empty for GPUs."""
    part: float = 0
    """The part of the job's needs that it holds of them."""

    def sentence(self, now: datetime) -> str:
        """The holder in a sentence."""
        where = f" on {listed(self.nodes)}" if self.nodes else ""
        holds = f"{self.beside or counted(self.gpus, 'GPU')}{where}"
        name = one_line(f"{self.namespace}/{self.name}")
        if self.kind == "Plan":
            return f"job {name} of this plan takes {holds}"
        if self.kind == "Pod":
            return f"pod {name} holds {holds}; its end is unknown"
        if self.kind == "ResourceClaim":
            return f"ResourceClaim {name} holds {holds}; no pod uses it"
        done = f", {self.percent} % done" if self.percent is not None else ""
        if self.ends is None:
            return f"job {name} holds {holds}{done}; it does not report its end"
        if self.ends <= now:
            return f"job {name} holds {holds}{done}, and was to end at {self.ends:%Y-%m-%dT%H:%M:%SZ}"
        return (
            f"job {name} holds {holds}{done}, until about {self.ends:%Y-%m-%dT%H:%M:%SZ} (in {_span(self.ends, now)})"
        )


class Holdings:
    """The GPUs that pods of a cluster hold, and the statuses of the GPUJobs that they belong to."""

    def __init__(
        self,
        objects: ClusterObjects,
        documents: Iterable[Any],
        now: datetime,
        catalog: Catalog,
        own: tuple[str, str] = ("", ""),
    ) -> None:
        """`now` is when they were read, `own` the namespace and uid of a job whose pods do not count."""
        self.now, self._objects, self._documents, self._own = now, objects, documents, own
        self._catalog = catalog

    def of(self, decision: Decision, before: Iterable[QueueDecision] = ()) -> tuple[Holder, ...]:
        """Who holds what a Waiting decision waits for, those with the nearest end first, then those with more GPUs: on each node
        its GPUs or, where these are free, what is short beside them.

        `before` are the jobs of the same plan that are decided on first.
        """
        nearest = decision.candidates[0] if decision.candidates else None
        if decision.verdict is not Verdict.WAITING or nearest is None or nearest.outcome is not Outcome.BUSY:
            return ()
        quota = next((each for each in nearest.reasons[:1] if each.reason is Reason.QUOTA_EXCEEDED), None)
        if quota is not None and not is_used_by_pods(str(quota.numbers[1])):
            return ()
        demand = decision.demand.only(nearest.gang)
        nodes = None if quota else _usable(demand, nearest.pool)
        found = [*self._mounting(demand, before)] if demand.attached else []
        short = short_on(demand, nearest.pool, nodes) if nodes else {}
        if short and nodes:
            found += self._beside_gpus(demand, nearest.pool, short, before)
            nodes = nodes - short.keys()
        namespace = decision.demand.namespace if quota else None
        found += [*_placed(before, nodes, namespace), *self._pods(nearest.pool, nodes, namespace)]
        return tuple(sorted(found, key=_order))

    def _is_own(self, key: _Key) -> bool:
        """Whether it is of the job whose pods do not count; pods of another namespace may name its uid."""
        return bool(key.job_uid) and (key.namespace or "default", key.job_uid) == self._own

    def _mounting(self, demand: Demand, before: Iterable[QueueDecision]) -> Iterator[Holder]:
        """Who mounts the claims of the job."""
        found = dict(claim_users.by_user(claim_users.of_cluster(self._objects, demand, self._own[1])))
        jobs = self._jobs() if any(uid for _, uid, _ in found) else {}
        for (where, uid, name), (said, on) in found.items():
            holder = _of_job(jobs.get(uid), where, uid, 0, on) if uid else Holder("Pod", where, name, 0, on)
            yield replace(holder, beside=said)
        for (where, name), (said, on) in claim_users.by_user(claim_users.of_plan(before, demand)):
            yield Holder("Plan", where, name, 0, on, beside=said)

    def _beside_gpus(
        self, demand: Demand, pool: Pool, short: Short, before: Iterable[QueueDecision]
    ) -> Iterator[Holder]:
        """Who holds what is short on nodes whose GPUs are free."""
        needs = needs_later(demand, (node for node in pool.nodes if node.name in short))
        own = ((_of_pod(pod), node, taken) for pod, node, taken in requests(self._objects.pods, short))
        found = dict(shares(short, needs, (each for each in own if not self._is_own(each[0]))))
        jobs = self._jobs() if any(key.job_uid for key in found) else {}
        for key, share in found.items():
            where, uid, name, kind = key
            holder = (
                _of_job(jobs.get(uid), where, uid, 0, share.nodes) if uid else Holder(kind, where, name, 0, share.nodes)
            )
            yield replace(holder, beside=share.said, part=share.part)
        yield from _placed_beside(before, short, needs)

    def _pods(self, pool: Pool, nodes: set[str] | None, namespace: str | None) -> Iterator[Holder]:
        held = self._held(pool, nodes)
        jobs = self._jobs() if any(key.job_uid for key in held) else {}
        for key, taken in held.items():
            where, uid, name, kind = key
            counted_in = [(node, gpus) for node, gpus in taken if gpus > 0 and (nodes is None or node in nodes)]
            if counted_in and namespace in (None, where) and not self._is_own(key):
                on = tuple(sorted({node for node, _ in counted_in if node}))
                gpus = sum(gpus for _, gpus in counted_in)
                yield _of_job(jobs.get(uid), where, uid, gpus, on) if uid else Holder(kind, where, name, gpus, on)

    def _held(self, pool: Pool, nodes: set[str] | None) -> dict[_Key, list[tuple[str, int]]]:
        """What pods, claims and reservations have of a pool's devices or of their cards, by node."""
        held, coming = (defaultdict[_Key, list[tuple[str, int]]](list) for _ in range(2))
        views = {node.name: [name for name, _ in node.silicon.shares] for node in pool.nodes if node.silicon}
        most = {node.name: node.total for node in pool.nodes} if pool.host_devices else {}
        for pod in self._objects.pods:
            if not pod.terminal:
                gpus = sum(pod.devices.get(name, 0) for name in views.get(pod.node, (pool.resource,)))
                # A pod that mounts the host's device files holds all of the node.
                held[_of_pod(pod)].append((pod.node, min(gpus, most.get(pod.node) or gpus)))
        for claim in claimed_devices(self._objects, pool.resource, nodes, self._catalog):
            kind = "Pod" if claim.reserved else "ResourceClaim"
            key = _of_pod(claim.pod) if claim.pod else _Key(claim.namespace, "", claim.name, kind)
            held[key].append((claim.node, claim.devices))
        for reservation in self._objects.reservations:
            key = _Key(reservation.namespace, reservation.job_uid)
            if reservation.resource == pool.resource and key not in held:
                coming[key].append((reservation.node, reservation.gpus))
        return held | coming

    def _jobs(self) -> dict[str, Mapping[str, Any]]:
        from gpujob.fleet.sources.cluster_file import objects_in

        jobs = (each for each in objects_in(self._documents, []) if each.get("kind") == "GPUJob")
        return {str(table(each, "metadata").get("uid")): each for each in jobs}


def sentences(holders: Sequence[Holder], now: datetime) -> Iterator[str]:
    """The holders in sentences: `MOST` of them, and how much the others hold."""
    yield from (each.sentence(now) for each in holders[:MOST])
    rest = holders[MOST:]
    if rest:
        gpus = counted(sum(each.gpus for each in rest), "GPU")
        yield f"{len(rest)} more hold {'less of it' if rest[0].part else 'it too' if rest[0].beside else gpus}"


def document(holder: Holder) -> dict[str, Any]:
    """A holder as JSON."""
    return {
        "kind": holder.kind,
        "namespace": holder.namespace,
        "name": holder.name,
        "gpus": holder.gpus,
        **({"beside": holder.beside} if holder.beside else {}),
        "nodes": list(holder.nodes),
        "percent": holder.percent,
        "estimatedEnd": f"{holder.ends:%Y-%m-%dT%H:%M:%SZ}" if holder.ends else None,
    }


def _usable(demand: Demand, pool: Pool) -> set[str]:
    """The nodes of a pool whose GPUs a job can take when they are free."""
    return {each.name for each in able_nodes(demand, pool) if _can_take(demand, each)}


def _can_take(demand: Demand, node: PoolNode) -> bool:
    return node.unready is None and not demand.excludes(node.name) and demand.attaches(node.name)


def _of_pod(pod: Pod) -> _Key:
    """The key of a pod: its GPUJob's, if it has one."""
    return _Key(pod.namespace, pod.job_uid) if pod.job_uid else _Key(pod.namespace, "", pod.name)


def _of_job(raw: Mapping[str, Any] | None, namespace: str, uid: str, gpus: int, nodes: tuple[str, ...]) -> Holder:
    """A holder that is a GPUJob, by its status; one that is not in the namespace of its pods appears with the uid that they name."""
    if raw is None or (table(raw, "metadata").get("namespace") or "default") != (namespace or "default"):
        return Holder("GPUJob", namespace, uid, gpus, nodes)
    progress = table(table(raw, "status"), "progress")
    percent = whole_number(progress.get("percent"))
    name = str(table(raw, "metadata").get("name"))
    done = percent if percent is not None and percent <= 100 else None
    return Holder("GPUJob", namespace, name, gpus, nodes, done, read_time(progress.get("estimatedEnd")))


def _placed(before: Iterable[QueueDecision], nodes: set[str] | None, namespace: str | None) -> Iterator[Holder]:
    """Jobs of the same plan that took GPUs on these nodes or of this namespace."""
    for decided in before:
        choice, job = decided.choice, decided.job
        if choice is None or job.plan_only or namespace not in (None, job.namespace):
            continue
        on = tuple(name for name in choice.nodes if name and (nodes is None or name in nodes))
        if on:
            yield Holder("Plan", job.namespace, job.name, len(on) * choice.candidate.gang.gpus_per_node, on)


def _placed_beside(before: Iterable[QueueDecision], short: Short, needs: Resources) -> Iterator[Holder]:
    """Jobs of the same plan that took what is short on these nodes."""
    taken = [
        ((each.job.namespace, each.job.name), node, each.choice.needs)
        for each in before
        if each.choice is not None and not each.job.plan_only
        for node in each.choice.nodes
    ]
    for (namespace, name), share in shares(short, needs, taken):
        yield Holder("Plan", namespace, name, 0, share.nodes, beside=share.said, part=share.part)


def _order(holder: Holder) -> tuple[float, float, int, str, str]:
    ends = holder.ends.timestamp() if holder.ends else inf
    return (ends, -holder.part, -holder.gpus, holder.namespace, holder.name)


def _span(end: datetime, now: datetime) -> str:
    """The time until an end, in minutes, hours or days."""
    minutes = max(1, round((end - now).total_seconds() / 60))
    if minutes < 60:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest:02d} min" if hours < 48 else f"{hours // 24} days"
