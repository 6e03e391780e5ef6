"""A job's PersistentVolumeClaims against the nodes that can mount them, and what must be fixed first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.pool import Pool
from gpujob.fleet.storage.claim_volumes import Volume, Volumes, Wanted, of_a_pod
from gpujob.fleet.storage.volume_binding import Binding, Short, after
from gpujob.fleet.storage.volume_ties import Tie
from gpujob.placement.request.demand import Attachment, Demand
from gpujob.values.finding import Finding, counted, listed
from gpujob.values.vocabulary import Reason


def mounted(demand: Demand, fleet: Fleet, namespace: str) -> Demand:
    """The demand with the limits of its claims, as far as those of the namespace are known, and the StorageClass of claims that name
    none.
    """
    own: list[Volume] = []
    if demand.new_claims:
        each = zip(demand.claim_volumes, demand.new_claims, strict=True)
        own = [fleet.volumes.of_pod(f"of volumes[{index}]", *claim) for index, claim in each]
        unmade = [(at, each.trouble) for at, each in zip(demand.claim_volumes, own, strict=True) if each.trouble]
        default = fleet.volumes.default_class or ""
        made = tuple((name or default, size) for name, size in demand.new_claims)
        demand = demand.but(new_claims=made, unmade=tuple(unmade) if fleet.volumes.classes else ())
    if not demand.claims:
        return _together(_tied(demand, own), fleet, namespace)
    named = {claim: fleet.volumes.volume(namespace, claim) for claim in demand.claims}
    found, known = [volume for volume in named.values() if volume is not None], fleet.volumes.knows(namespace)
    demand = _tied(demand, [*found, *own]).but(
        unseen=() if known else tuple(claim for claim, volume in named.items() if volume is None),
        single=tuple(volume.claim for volume in found if volume.one_node),
        lost=tuple(claim for claim, volume in named.items() if volume is None and known),
        troubled=tuple((volume.claim, volume.trouble, volume.remedy) for volume in found if volume.trouble),
    )
    demand = _together(demand, fleet, namespace)
    return _attached(demand, fleet, namespace) if demand.single else demand


def _unbound(demand: Demand, fleet: Fleet, namespace: str) -> tuple[list[Wanted], list[Wanted]]:
    """The job's claims that are not bound: those that it names, and those that each of its pods makes."""
    named = (fleet.volumes.wanted(namespace, claim) for claim in demand.claims)
    own = demand.new_claims if fleet.volumes.classes else ()
    return [*filter(None, named)], [of_a_pod(*claim) for claim in own]


def _together(demand: Demand, fleet: Fleet, namespace: str) -> Demand:
    """The demand with the nodes on which its claims are bound together, since each takes a PersistentVolume of its own."""
    if demand.unmade or demand.troubled:
        return demand
    named, own = _unbound(demand, fleet, namespace)
    if (of_bound := _of_bound(demand, fleet, namespace, named)) == frozenset():
        return demand
    fewest, binding = min(gang.nodes for gang in demand.gangs), Binding(fleet.volumes, [*named, *own])
    if short := binding.short() or Binding(fleet.volumes, own).short(fewest):
        return _short(demand, own, short)
    apart = demand.mountable == frozenset()
    if not (apart or binding.contested):
        return demand
    everywhere = frozenset(node.name for node in fleet.volumes.nodes.values())
    among = everywhere if demand.mountable is None else demand.mountable
    nodes = binding.nodes(among)
    if nodes == among and not apart:
        return demand
    tied = demand.claims if apart else [wanted.key[1] for wanted in named if wanted.key]
    claims = (*tied, *(f"of volumes[{at}]" for at in demand.claim_volumes))
    if not nodes and len(claims) > 1 and (last := binding.last_apart(of_bound)):
        why = f"no node has a PersistentVolume for each of {listed(claims, 4)}"
        return _without_volume(demand, own, last, why, "create one on a node that has those of the others")
    if apart:
        return demand
    together = f"{listed(claims, 4)} together (each takes a PersistentVolume of its own)"
    once_made = demand.once_made or ((demand.mountable, demand.tied) if binding.has_static else None)
    return demand.but(mountable=nodes, ties=(*demand.ties, together), once_made=once_made)


def _of_bound(demand: Demand, fleet: Fleet, namespace: str, unbound: Iterable[Wanted]) -> frozenset[str] | None:
    """The nodes that can mount all of the job's claims that are bound; None if any node can."""
    waiting = {wanted.key for wanted in unbound}
    bound = (fleet.volumes.volume(namespace, claim) for claim in demand.claims if (namespace, claim) not in waiting)
    nodes = [volume.nodes for volume in bound if volume is not None and volume.nodes is not None]
    return frozenset.intersection(*nodes) if nodes else None


def _short(demand: Demand, own: Sequence[Wanted], short: Short) -> Demand:
    """The demand with the claim that gets no PersistentVolume, because too few are left for all of the job's claims."""
    left = counted(short.left, "PersistentVolume")
    kind = (
        f"StorageClass {short.storage_class} makes no volumes and"
        if short.storage_class
        else "without a StorageClass it"
    )
    why = f"{kind} has {left} left for {short.claims} claims of the job"
    return _without_volume(demand, own, short.last, why, "create such a PersistentVolume")


def _without_volume(demand: Demand, own: Sequence[Wanted], last: Wanted, why: str, remedy: str) -> Demand:
    """The demand with a claim that gets no PersistentVolume."""
    if last.key is None:
        at = max(index for index, wanted in zip(demand.claim_volumes, own, strict=True) if wanted == last)
        return demand.but(unmade=((at, why),))
    return demand.but(troubled=((last.key[1], f"is not bound, and {why}", remedy),))


def bound_by(demand: Demand, fleet: Fleet, namespace: str, nodes: Sequence[str]) -> Volumes:
    """The volumes after a job took those that its claims get on these nodes."""
    named, own = _unbound(demand, fleet, namespace)
    return after(fleet.volumes, named, own, nodes) if named or own else fleet.volumes


def _tied(demand: Demand, volumes: Iterable[Volume]) -> Demand:
    """The demand with the nodes that can mount all of these volumes."""
    tied = [volume for volume in volumes if volume.nodes is not None]
    if not tied:
        return demand
    mountable, requires = _limits(tied)
    firm = [volume for volume in tied if not volume.static]
    return demand.but(
        mountable=mountable,
        ties=tuple(f"{volume.claim} ({volume.tie})" for volume in tied),
        tied=requires,
        once_made=_limits(firm) if len(firm) < len(tied) else None,
    )


def _limits(tied: Iterable[Volume]) -> tuple[frozenset[str] | None, tuple[Tie, ...]]:
    """The nodes that can mount all of these volumes (None: any), and what each requires of a node."""
    nodes = [volume.nodes for volume in tied if volume.nodes is not None]
    return frozenset.intersection(*nodes) if nodes else None, tuple(volume.requires for volume in tied)


def _attached(demand: Demand, fleet: Fleet, namespace: str) -> Demand:
    """The demand with the pods that mount its claims now; it keeps its namespace, since equal names are other claims elsewhere."""
    attached = attachments(demand.single, fleet, namespace)
    each = [attachment.nodes for attachment in attached]
    return demand.but(
        namespace=namespace, attached=attached, attachable=frozenset.intersection(*each) if attached else None
    )


def attachments(claims: Iterable[str], fleet: Fleet, namespace: str) -> tuple[Attachment, ...]:
    """Those of the claims that pods of the fleet mount and keep from other nodes, or from other pods."""
    found = ((claim, fleet.mounts.get((namespace, claim))) for claim in claims)
    mounted_by = [(fleet.volumes.volume(namespace, claim), mounts) for claim, mounts in found if mounts]
    return tuple(
        Attachment(volume.claim, mounts, volume.one_pod)
        for volume, mounts in mounted_by
        if volume is not None and volume.is_exclusive
    )


def volume_of_one_node(demand: Demand, pool: Pool, fleet: Fleet) -> Finding | None:
    """A volume that one node at a time can mount, and a job of several nodes."""
    if demand.nodes == 1:
        return None
    # One that is to be made again has a remedy of its own.
    again = {claim for claim, _, _ in demand.troubled}
    claim = next((each for each in demand.single if each not in again), None)
    if claim is None:
        return None
    sentence = "needs {} nodes, and PersistentVolumeClaim {} can be mounted on one node at a time; use ReadWriteMany or one node"
    return Finding(Reason.ACCESS_MODE, sentence, (demand.nodes, claim))
