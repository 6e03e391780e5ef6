"""Warnings about a job that hold for every pool: its program, its user, and what it names and the cluster does not show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.pools.fleet import Fleet
from gpujob.placement.filters.job_validation import unknown_exclusions
from gpujob.placement.filters.memory import sharding_assumed
from gpujob.placement.images.compatibility import Findings
from gpujob.placement.request.demand import Demand
from gpujob.placement.request.launch import Program, chosen
from gpujob.values.finding import Finding, counted, listed
from gpujob.values.vocabulary import Method, Reason, Vendor


class JobWarnings(NamedTuple):
    """The warnings about a gang of a job that hold for every pool, by their place among those about the pool."""

    sharding: Findings
    program: Findings
    launch: Mapping[Vendor, Findings]
    """Those about its command line and variables, by the vendor of the devices."""
    user: Findings
    unknown: Findings


def warnings_of(demand: Demand, fleet: Fleet, catalog: Catalog) -> JobWarnings:
    """The warnings of a demand of one gang."""
    return JobWarnings(
        tuple(sharding_assumed(demand)),
        tuple(_of_program(demand)),
        {vendor: tuple(_against_the_gang(demand, vendor)) for vendor in Vendor},
        tuple(_of_user(demand)),
        _unknown_to_the_fleet(demand, fleet, catalog),
    )


def _of_program(demand: Demand) -> Iterator[Finding]:
    """What is unknown of the job's program."""
    yield from _of_other_frameworks(demand)
    yield from _without_steps(demand)
    for at, first in demand.repeated:
        sentence = (
            "shapes[{}] repeats nodes, GPUs and accelerator of shapes[{}], which is tried in its place; remove one"
        )
        yield Finding(Reason.INVALID_SPEC, sentence, (at, first))
    if not demand.own_command:
        yield Finding(Reason.NO_COMMAND, "no command is given: the image's own runs; write spec.command")


def _against_the_gang(demand: Demand, vendor: Vendor) -> Iterator[Finding]:
    """Options and variables of the program that name other nodes or GPUs than the gang has: they win over what the operator sets."""
    gang = demand.gang
    entry = 0 if gang.entry is None else gang.entry + 1
    program = demand.programs[entry] if entry < len(demand.programs) else Program()
    for launch in program.launches:
        if launch.contradicts(gang):
            have = launch.there(gang)
            what = counted(have, "node") if launch.of_nodes else f"{counted(have, 'GPU')} a node"
            sentence = "{} on the command line, and the job has {}; {}"
            yield Finding(Reason.LAUNCH_DIFFERS, sentence, (launch.text, what, launch.remedy.format(have)))
    for acts_on, (name, value, where) in program.visible:
        numbers = chosen(value) if acts_on is vendor else None
        if numbers is not None and numbers != set(range(gang.gpus_per_node)):
            sentence = "{}={} {}, and a pod's GPUs are numbered {}; remove the " + (
                "option" if name[0] == "-" else "variable"
            )
            last = f"0 to {gang.gpus_per_node - 1}" if gang.gpus_per_node > 1 else "0"
            yield Finding(Reason.LAUNCH_DIFFERS, sentence, (name, value[:64], where, last))


WITHOUT_TORCH: Final = frozenset({"jax", "tensorflow"})
"""Frameworks that are not built on PyTorch; the memory estimate and the reporter do not support them."""

WITHOUT_STEPS: Final = WITHOUT_TORCH | {"vllm", "sglang"}
"""Frameworks without steps that the reporter can count: engines serve requests and have no optimizer."""


def _of_other_frameworks(demand: Demand) -> Iterator[Finding]:
    """What is unknown for jobs whose framework is not PyTorch."""
    if demand.framework not in WITHOUT_STEPS:
        return
    if demand.model is not None and demand.framework in WITHOUT_TORCH:
        sentence = "the memory estimate is that of PyTorch, what {} takes is not known; write gpuMemory"
        yield Finding(Reason.FRAMEWORK_UNMEASURED, sentence, (demand.framework,))
    sentence = "progress and speed of {} are not seen by themselves; call gpujob_report.step() after each step"
    yield Finding(Reason.FRAMEWORK_UNMEASURED, sentence, (demand.framework,))


def _without_steps(demand: Demand) -> Iterator[Finding]:
    """The fields that act on steps, for inference, which reports none by itself."""
    if demand.model is None or demand.model.method is not Method.INFERENCE:
        return
    acting = {
        "stall": demand.watches_steps,
        "placement.probe": demand.probe_steps is not None,
        "placement.exploration": demand.exploration is not None,
    }
    fields = [field for field, is_set in acting.items() if is_set]
    if fields:
        sentence = "{} on steps, and inference reports none by itself; call gpujob_report.step() after each batch, or remove {}"
        alone = len(fields) == 1
        what = f"{listed(fields)} {'acts' if alone else 'act'}"
        yield Finding(Reason.NO_STEPS, sentence, (what, "it" if alone else "them"))


def _beyond_ids(demand: Demand) -> Iterator[Finding]:
    """User and group ids that the platform's default rejects; a service account may allow others."""
    if demand.ids is None:
        return
    fields = ("runAsUser", "fsGroup")
    for name, asked, (first, last) in zip(fields, demand.run_as, demand.ids, strict=True):
        if asked is not None and not first <= asked <= last:
            sentence = (
                "securityContext.{} is {}, and OpenShift's restricted-v2 admits {} to {} in namespace {}; leave it out"
            )
            numbers = (name, asked, first, last, demand.namespace or "default")
            yield Finding(Reason.ID_OUT_OF_RANGE, sentence, numbers)


def _of_user(demand: Demand) -> Iterator[Finding]:
    """What is unusual about the user of the job's containers."""
    yield from _beyond_ids(demand)
    if demand.as_root:
        yield Finding(Reason.RUNS_AS_ROOT, 'runs as root, which the "restricted" Pod Security level refuses')


def _unknown_to_the_fleet(demand: Demand, fleet: Fleet, catalog: Catalog) -> Findings:
    """Objects that the job names and that this snapshot does not contain."""
    found: Findings = ()
    if demand.priority_class is not None and not fleet.priorities:
        sentence = "nothing is known of PriorityClasses here, {} is unchecked and the job's priority taken as 0"
        found += (Finding(Reason.PRIORITY_CLASS_UNKNOWN, sentence, (demand.priority_class,)),)
    if demand.service_account not in (None, "default") and catalog.service_accounts is None:
        sentence = "nothing is known of the ServiceAccounts that the admin allows here, {} is unchecked"
        found += (Finding(Reason.SERVICE_ACCOUNT_NOT_ALLOWED, sentence, (demand.service_account,)),)
    if demand.unseen:
        sentence = "nothing is known of the PersistentVolumeClaims of the job's namespace here, {} unchecked"
        claims = f"{listed(demand.unseen, 4)} {'is' if len(demand.unseen) == 1 else 'are'}"
        found += (Finding(Reason.VOLUME_MISSING, sentence, (claims,)),)
    found += tuple(unknown_exclusions(demand, fleet))
    if demand.unread:
        found += (Finding(Reason.INVALID_SPEC, "{}", (demand.unread,)),)
    return found
