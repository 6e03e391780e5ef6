"""A job with a child: the child starts, runs, probes, ends, or must be deleted."""

from __future__ import annotations

from typing import Final

from gpujob.lifecycle import endings
from gpujob.lifecycle.actions import Action, CreateService, DeleteChild, EndProbe, GiveBack, Nothing, WriteStatus
from gpujob.lifecycle.attempts import gone, is_retired
from gpujob.lifecycle.steps import ends, failing, stalling, waiting
from gpujob.lifecycle.steps.evaluation import Evaluation
from gpujob.lifecycle.steps.outliving import ended_by_program
from gpujob.lifecycle.steps.probing import probe_result
from gpujob.lifecycle.steps.reporting import report
from gpujob.status.attempts import probe_runs
from gpujob.status.records.objects import ChildRecord
from gpujob.values.vocabulary import Reason

ENDS: Final = (
    failing.moved_by_fault,
    failing.moved_by_loss,
    failing.ended_by_interruption,
    failing.ended_by_start,
    ended_by_program,
)
"""How an attempt ends while its child Job lives: the first that applies."""


def with_child(evaluation: Evaluation, child: ChildRecord) -> Action:
    """The next action of a job whose recorded or next attempt has this child."""
    job = evaluation.job
    evaluation.first_of(child)
    suspend, older = job.spec.get("suspend") is True, _is_of_an_older_spec(evaluation, child)
    retired = older or is_retired(job, child)
    if not child.leaving and not suspend and (message := _lacks_interpreter(evaluation, child)):
        return DeleteChild(child) if retired else ends.end(evaluation, child, endings.no_interpreter(message))
    probe = probe_runs.steps_of(child) is not None
    if probe and not retired and (result := probe_result(evaluation, child)):
        return EndProbe(child, result)
    if child.ended and not older and not (retired and (probe or not failing.succeeded(evaluation, child))):
        return failing.ended(evaluation, child, follows=not (retired or probe))
    if evaluation.view.disowned:
        return failing.disowned(evaluation, child)
    if child.leaving:
        return _leaving(evaluation, child)
    if retired:
        evaluation.see(not_running=None)
        return DeleteChild(child)
    if suspend:
        return ends.end(evaluation, child, endings.suspension(child))
    return _starting_or_running(evaluation, child)


def _is_of_an_older_spec(evaluation: Evaluation, child: ChildRecord) -> bool:
    """Whether what its program is made from was edited since, which only a status that names the child forbids. Then neither the
    program nor the end of it is the job's."""
    job, made = evaluation.job, evaluation.unwritten(child)
    if job.status.get("jobName") == child.name:
        return False
    generation, digest = (made.generation, made.spec_digest) if made else (child.made_from, child.spec_digest)
    if generation is None or generation >= job.generation:
        return False
    if digest:
        return digest != job.spec_digest
    # Of an earlier release. A suspension is an edit too, and changes no program.
    return not is_retired(job, child) and generation < job.generation - (job.spec.get("suspend") is True)


def _starting_or_running(evaluation: Evaluation, child: ChildRecord) -> Action:
    for step in ENDS:
        if (moved := step(evaluation, child)) is not None:
            return moved
    found = stalling.stall(evaluation, child)
    if found is not None and (stalled := stalling.ended_by_stall(evaluation, child, found)) is not None:
        return stalled
    job, awaited = evaluation.job, waiting.awaited_nodes(evaluation, child)
    if awaited and awaited.seconds_left <= 0:
        return ends.end(evaluation, child, waiting.without_nodes(evaluation, child, awaited))
    unbound = waiting.unbound(evaluation, child)
    if unbound and unbound.seconds_left <= 0:
        return GiveBack(child, waiting.end_of(evaluation, child, unbound).status)
    if not job.leaving and waiting.lost_service(evaluation):
        return CreateService(child)
    if not job.leaving and (asked := waiting.action_for_refusal(evaluation, child)) is not None:
        return asked
    return report(evaluation, child, awaited.bare if awaited else None, unbound, found)


def _leaving(evaluation: Evaluation, child: ChildRecord) -> Action:
    """A deleted Job creates no pods: without pods it is lost, even if a finalizer keeps the object. A Job that no status names
    keeps its name as long, so its attempt is over and the next one has another name."""
    job = evaluation.job
    if job.status.get("jobName") != child.name:
        if job.leaving or evaluation.seconds_left("kept", child, evaluation.timings.cascade) > 0:
            return Nothing()
        suspended = job.spec.get("suspend") is True
        return ends.end(evaluation, child, endings.suspension(child) if suspended else endings.kept(child))
    if evaluation.pods:
        return Nothing()
    return WriteStatus(gone(evaluation.job, evaluation.now.text))


def _lacks_interpreter(evaluation: Evaluation, child: ChildRecord) -> str:
    """The preflight's message about an image that cannot run it; empty if it can or the job has run."""
    checked = evaluation.observe(child).checked if child.preflight else None
    if checked is None or checked.reason is not Reason.NO_INTERPRETER or evaluation.job.status.get("startTime"):
        return ""
    return checked.message
