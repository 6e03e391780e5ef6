"""What becomes of jobs and objects when the operator is uninstalled: `doctor --before-uninstall`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from gpujob.cli.doctor.facts import Facts, Raw, name_of
from gpujob.cli.doctor.finding import Found, error, fine, unknown, warning
from gpujob.values.finding import counted, several
from gpujob.values.untrusted import one_line, table
from gpujob.values.vocabulary import State

WITH_PODS: Final = (State.PLACED, State.STARTING, State.RUNNING)
WITHOUT_PODS: Final = ("", State.QUEUED, State.RESTARTING, State.MISCONFIGURED, State.IMPOSSIBLE)

KEEP: Final = "helm.sh/resource-policy"
MOST_NAMED: Final = 10


def kept(facts: Facts) -> Iterator[Found]:
    """Whether Helm leaves the CRDs, and with them every GPUJob."""
    check = "uninstall-crds"
    if facts.live is None:
        yield unknown(
            check, "a file does not say whether helm deletes the CRDs", "run it without --cluster before you uninstall"
        )
        return
    if facts.live.crds is None:
        yield unknown(
            check, "the CRDs may not be read, or are not there", "ask an admin whether the chart has crds.keep=true"
        )
        return
    goes = sorted(name_of(crd) for crd in facts.live.crds if _goes_with_a_release(crd))
    if goes:
        said = (
            f"the chart's crds.keep is false, so that helm deletes {several(goes)} with every object of them and every pod "
            "of a GPUJob"
        )
        yield error(
            check, said, "upgrade the release with --set crds.keep=true before you uninstall it, unless that is wanted"
        )
    else:
        yield fine(check, "the CRDs stay, and with them GPUJobs, GPUPools, GPURuntimes and GPUJobProfiles")


def running(facts: Facts) -> Iterator[Found]:
    """The jobs whose pods go on without an operator."""
    sentence = (
        "pods of {} go on to their end ({}); until an operator is installed again their statuses stay as they are, and nothing "
        "restarts them, counts their costs, or ends them at a deadline or a budget"
    )
    remedy = (
        'to give their GPUs back first, kubectl -n NAMESPACE patch gpujob NAME --type merge -p \'{"spec":{"suspend":true}}\' for '
        "each, and wait until it is Suspended"
    )
    yield _jobs_in(facts, "uninstall-running", WITH_PODS, (sentence, remedy), "no GPUJob has pods")


def waiting(facts: Facts) -> Iterator[Found]:
    """The jobs that wait and get no pods without an operator."""
    sentence = "no pods come for {} that have not ended ({}) until an operator is installed again"
    said = (sentence, "delete those that are not to run then")
    yield _jobs_in(facts, "uninstall-waiting", WITHOUT_PODS, said, "no GPUJob waits")


def _jobs_in(facts: Facts, check: str, states: tuple[str, ...], said: tuple[str, str], without: str) -> Found:
    """The finding about the jobs in some states: a sentence with their number and names, and a remedy; or that there are none."""
    names = _names(facts, states)
    if names is None:
        return _unread(check)
    if not names:
        return fine(check, without)
    sentence, remedy = said
    return warning(check, sentence.format(counted(len(names), "GPUJob"), several(names, MOST_NAMED)), remedy)


def leaving(facts: Facts) -> Iterator[Found]:
    """What an admin may miss: jobs that are to be deleted after their end stay."""
    check = "uninstall-ttl"
    jobs = _jobs(facts)
    if jobs is None:
        return
    names = sorted(_full_name(job) for job in jobs if "ttlSecondsAfterFinished" in table(job, "spec"))
    if names:
        said = (
            f"ttlSecondsAfterFinished of {counted(len(names), 'GPUJob')} ({several(names)}) does nothing until an operator is "
            "installed again"
        )
        yield warning(check, said, "delete those that have ended")
    else:
        yield fine(check, "no GPUJob is to be deleted after its end")


def _goes_with_a_release(crd: Raw) -> bool:
    """Whether Helm made a CRD and deletes it; one of another tool, or of `kubectl apply`, it leaves."""
    metadata = table(crd, "metadata")
    by_helm = table(metadata, "labels").get("app.kubernetes.io/managed-by") == "Helm"
    return by_helm and table(metadata, "annotations").get(KEEP) != "keep"


def _names(facts: Facts, states: Iterable[str]) -> list[str] | None:
    jobs = _jobs(facts)
    if jobs is None:
        return None
    return sorted(_full_name(job) for job in jobs if str(table(job, "status").get("state") or "") in tuple(states))


def _jobs(facts: Facts) -> Iterable[Raw] | None:
    return facts.kinds.get("GPUJob", ()) if facts.live is None else facts.live.jobs


def _unread(check: str) -> Found:
    return unknown(check, "GPUJobs of all namespaces may not be listed", "ask an admin to run this")


def _full_name(job: Raw) -> str:
    metadata = table(job, "metadata")
    return one_line(f"{str(metadata.get('namespace', 'default'))[:63]}/{name_of(job)}")
