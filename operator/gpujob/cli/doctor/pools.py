"""Checks of pools: contradicting labels, nodes without jobs, drivers against images, groups of device files, health, prices."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Final

from gpujob.catalog.images.from_spec import sentences
from gpujob.catalog.images.versions import release
from gpujob.cli.doctor.facts import Facts
from gpujob.cli.doctor.finding import Found, error, fine, set_values, unknown, warning
from gpujob.fleet.health.signals import SIGNALS, Signal, Where, is_listed, signal_of
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.capacity.shortage import barred
from gpujob.placement.images.drivers import driver_too_old
from gpujob.placement.images.image import shipped_images
from gpujob.values.finding import counted, several
from gpujob.values.untrusted import one_line, table, tables
from gpujob.values.vocabulary import HostAccess, Reason, Vendor

OLD_PRICES: Final = 180
"""Days after which list prices are reported as old."""

CORRECT: Final = "correct the labels of its nodes"

LISTED: Final = "list price"
"""In the source of a price that is one of the catalog's, or their median."""

OF_NODES: Final = frozenset({"Kubernetes", "Autoscaler", "Karpenter", "Medik8s", "CNI and CSI agents", "NPD"})
"""Sources of signals about nodes, not about GPUs."""


def labels(facts: Facts) -> Iterator[Found]:
    """Pools whose labels contradict each other, or name no device that could be used."""
    check, well = "labels", 0
    for pool in facts.fleet.whole_pools:
        contradictions = [found for found in pool.warnings if found.reason is Reason.LABELS_CONTRADICT]
        if pool.problem is not None:
            remedy = "or write a GPUPool with accelerator for them" if pool.discovered else "or the GPUPool"
            yield error(check, pool.problem.message, f"{CORRECT}, {remedy}", pool.name)
        for found in contradictions:
            yield warning(check, found.message, CORRECT, pool.name)
        well += pool.problem is None and not contradictions
    if well:
        yield fine(check, f"the labels of {well} pools agree")


def node_states(facts: Facts) -> Iterator[Found]:
    """Pools that no job can use because of a taint, and nodes that accept no jobs now."""
    check, well = "node-state", 0
    for pool in facts.fleet.whole_pools:
        found = [*_barred(check, pool), *_away(check, pool)]
        yield from found
        well += not found
    if well:
        yield fine(check, f"the nodes of {well} pools accept jobs")


def _barred(check: str, pool: Pool) -> Iterator[Found]:
    if (taint := barred(pool)) is not None:
        said, _, remedy = taint.message.partition("; ")
        yield warning(check, f"no job gets these GPUs: {said}", remedy, pool.name)


def _away(check: str, pool: Pool) -> Iterator[Found]:
    """The nodes of a pool that are cordoned, and those that are not ready, each kind with the remedy for its first one."""
    problem = pool.problem.message if pool.problem else None
    for reason, remedy in (
        (Reason.CORDONED, "run kubectl uncordon {} once its work is done"),
        (Reason.NOT_READY, "run kubectl describe node {}, and repair what its conditions say"),
    ):
        why = {node.name: node.unready.message for node in pool.nodes if node.unready and node.unready.reason is reason}
        away = [(name, message) for name, message in why.items() if message != problem]
        if away:
            (name, message), more = away[0], counted(len(away) - 1, "more node")
            said = f"no job gets the GPUs of {len(away)} of {counted(len(pool.nodes), 'node')}: {message}"
            yield warning(
                check, said + (f", and so on {more}" if len(away) > 1 else ""), remedy.format(name), pool.name
            )


def drivers(facts: Facts) -> Iterator[Found]:
    """Drivers that are too old for images of the catalog, and those that are unknown."""
    check = "drivers"
    for pool in facts.fleet.whole_pools:
        images = [image.facts for image in shipped_images(facts.catalog, pool.vendor) if image.facts is not None]
        if pool.driver is None:
            said = f"no label says the driver of {pool.vendor.value} devices"
            remedy = "install amdgpu-dkms, of which AMD's labeller writes amd.com/gpu.driver-version; an in-tree amdgpu has no version"
            yield warning(
                check, said, remedy if pool.vendor is Vendor.AMD else "install gpu-feature-discovery", pool.name
            )
            continue
        found = [(image, driver_too_old(pool.equipment, image, None)) for image in images]
        refused = [finding for _, finding in found if finding is not None]
        if not refused:
            yield fine(check, f"driver {pool.driver} of {pool.name} runs all {len(images)} images of the catalog")
            continue
        needed = max((str(finding.numbers[1]) for finding in refused), key=release)
        said = f"driver {pool.driver} is too old for {len(refused)} of {len(images)} images of the catalog"
        make = error if len(refused) == len(images) else warning
        yield make(check, said, f"update the driver to {needed} or newer", pool.name)


def groups(facts: Facts) -> Iterator[Found]:
    """AMD pools without the groups that own /dev/kfd and /dev/dri/renderD*."""
    check = "render-groups"
    amd = [pool for pool in facts.fleet.whole_pools if pool.vendor is Vendor.AMD]
    silent = [pool.name for pool in amd if not pool.supplemental_groups and not pool.host_devices]
    if silent:
        yield warning(
            check,
            f"no GPUPool says which groups own /dev/kfd and /dev/dri/renderD* of {several(silent)}; jobs run as a user that is "
            "not root, and open these files only where all users may",
            "run stat -c %g /dev/kfd /dev/dri/renderD* on a node, and set supplementalGroups in a GPUPool where they are not 0666",
        )
    elif amd:
        yield fine(check, f"{len(amd)} AMD pools say their device groups")


def host_access(facts: Facts) -> Iterator[Found]:
    """Pools that give pods of the host what the installation forbids."""
    check, allowed = "host-access", facts.fleet.host_access
    if allowed is None:
        return
    pools = facts.fleet.whole_pools
    for access, names, gives, by in (
        (HostAccess.DEVICES, [pool.name for pool in pools if pool.host_devices], "pods device files", "deviceMode"),
        (
            HostAccess.NETWORK,
            [pool.name for pool in pools if pool.fabric and pool.fabric.host_network],
            "gangs the network",
            "fabric.hostNetwork",
        ),
    ):
        if names and access not in allowed:
            said = f"the chart's admission.{access.value} is false, and {several(names)} give {gives} of the host"
            remedy = f"{set_values(f'--set admission.{access.value}=true')}, or change spec.{by} of the GPUPool"
            yield warning(check, said, remedy)
        elif names:
            yield fine(check, f"the chart's admission.{access.value} is true, as {several(names)} need")


def health(facts: Facts) -> Iterator[Found]:
    """Whether an agent would report a broken GPU, by vendor; and what is reported now."""
    check = "health-signals"
    for vendor in Vendor:
        pools = [pool for pool in facts.fleet.whole_pools if pool.vendor is vendor]
        names = {node.name for pool in pools for node in pool.nodes if node.name}
        if not names:
            continue
        agents = sorted(_sources(facts, names, vendor))
        if agents:
            yield fine(check, f"the health of {vendor.value} nodes is reported by {', '.join(agents)}")
        else:
            agent = (
                "NVSentinel or the cloud's agent"
                if vendor is Vendor.NVIDIA
                else "AMD's device-metrics-exporter with node-problem-detector"
            )
            yield warning(
                check,
                f"no agent reports faults of {vendor.value} devices: no node has a condition or label of a health agent",
                f"install {agent}; until then a broken device shows in jobs that fail",
            )
    for pool in facts.fleet.whole_pools:
        for node in (node for node in pool.nodes if node.suspected is not None):
            yield warning(
                check,
                str(node.suspected and node.suspected.message),
                "repair or drain the node",
                f"{pool.name}/{node.name}",
            )


def _sources(facts: Facts, names: set[str], vendor: Vendor) -> set[str]:
    """The agents with a sign, good or bad, on any of these nodes."""
    rows, found = [row for row in SIGNALS if _reports_gpus(row, vendor)], set[str]()
    for node in facts.nodes:
        metadata = table(node, "metadata")
        if metadata.get("name") in names:
            signs = {
                Where.CONDITION: {str(each.get("type")) for each in tables(table(node, "status"), "conditions")},
                Where.LABEL: set(map(str, table(metadata, "labels"))),
                Where.TAINT: {str(each.get("key")) for each in tables(table(node, "spec"), "taints")},
            }
            found |= {row.source for row in rows if _has(signs[row.where], row.key)}
            found |= {one_line(f"condition {key[:253]}") for key in signs[Where.CONDITION] if _is_read_by_words(key)}
    return found


def _reports_gpus(row: Signal, vendor: Vendor) -> bool:
    """Whether an agent that writes this checks GPUs: Kubernetes and autoscalers do not, and vendors' operators write labels of
    upgrades and modes, which are no check of the device."""
    if row.vendor not in (None, vendor) or row.source in OF_NODES:
        return False
    return row.where is not Where.LABEL or row.source not in (each.value for each in Vendor)


def _is_read_by_words(condition: str) -> bool:
    """Whether a condition of an agent that no row names is read as one about GPUs, so that placement acts on it."""
    signal = signal_of(Where.CONDITION, condition)
    return signal is not None and not is_listed(signal)


def _has(signs: set[str], key: str) -> bool:
    if "*" not in key:
        return key in signs
    return any(sign.startswith(key[:-1]) if key.endswith("*") else sign.endswith(key[1:]) for sign in signs)


def prices(facts: Facts) -> Iterator[Found]:
    """Pools without a price, or with a median of list prices; own prices that are of nothing here."""
    check = "prices"
    without = [pool for pool in facts.fleet.whole_pools if pool.price is None]
    for pool in without:
        said = "no price is known, so jobs with a limit of price are refused there and Cost and Value come last"
        yield warning(check, said, _price_of(pool), pool.name)
    for pool in facts.fleet.whole_pools:
        if any(found.reason is Reason.PRICE_INDICATIVE for found in pool.warnings) and pool.price is not None:
            yield warning(check, f"the price is no price of yours: {pool.price.source}", _price_of(pool), pool.name)
    used = {pool.accelerator_id for pool in facts.fleet.whole_pools} | {
        pool.instance_type.lower() for pool in facts.fleet.whole_pools
    }
    own = facts.catalog.own_prices
    hit = {price.word for key, price in own.items() if key in used}
    for word in sorted({price.word for price in own.values()} - hit):
        yield warning(
            check,
            f"prices.{word} is of no pool: there is no such accelerator or instance type here",
            "correct the name; kubectl gpujob pools -o wide shows those that are there",
        )
    if facts.fleet.whole_pools and len(without) < len(facts.fleet.whole_pools):
        yield fine(
            check, f"{len(facts.fleet.whole_pools) - len(without)} of {len(facts.fleet.whole_pools)} pools have a price"
        )


def _price_of(pool: Pool) -> str:
    word = pool.accelerator_id if pool.accelerator else pool.instance_type
    return f"set the chart's prices.{word}, or price in a GPUPool" if word else "set price in a GPUPool"


def catalog_age(facts: Facts) -> Iterator[Found]:
    """The newest list price, and whether it is old and some pool has one; rows that are left out."""
    check = "catalog"
    for name, sentence in facts.catalog.refused:
        yield error(check, f"a row is left out: {sentence}", "correct the row", name)
    for sentence in sentences(facts.catalog.runtimes):
        yield error(check, sentence, "correct the GPURuntime; jobs that name it are refused")
    days = [price.checked_on for price in facts.catalog.prices if price.checked_on]
    try:
        newest = max(days)
        age = (date.fromisoformat(facts.now[:10]) - date.fromisoformat(newest)).days
    except ValueError:
        yield unknown(check, "no price of the catalog says its day", "set checkedOn in its rows")
        return
    pools = facts.fleet.whole_pools
    used = not pools or any(pool.price is not None and LISTED in pool.price.source for pool in pools)
    if age > OLD_PRICES and used:
        said = f"the newest list price is of {newest}, {age} days ago"
        yield warning(check, said, "upgrade gpujob-operator, or set the chart's prices")
    else:
        yield fine(check, f"the newest list price is of {newest}")
