"""next_action: the next step of a job, from the cluster's state, the observations with their times, and the time."""

from __future__ import annotations

import math

from gpujob.lifecycle.actions import Action, Next
from gpujob.lifecycle.attempts import is_final
from gpujob.lifecycle.sightings import Sightings
from gpujob.lifecycle.steps.ended_job import after_the_end, delete_leftovers
from gpujob.lifecycle.steps.evaluation import Evaluation
from gpujob.lifecycle.steps.with_child import with_child
from gpujob.lifecycle.steps.without_child import leaving_without_child, without_child
from gpujob.lifecycle.timings import Timings
from gpujob.lifecycle.view import JobView, Moment


def next_action(view: JobView, sightings: Sightings, now: Moment, timings: Timings) -> Next:
    """The next action for a job; the only state is `Next.sightings`."""
    evaluation = Evaluation(view, sightings, now, timings)
    action = _action(evaluation)
    evaluation.see(looked=now.elapsed)
    after = evaluation.requeue_after if evaluation.requeue_after < math.inf else None
    return Next(action, evaluation.sightings, after, evaluation.watches_nodes)


def _action(evaluation: Evaluation) -> Action:
    if (deletion := delete_leftovers(evaluation)) is not None:
        return deletion
    if is_final(evaluation.job):
        return after_the_end(evaluation)
    if evaluation.child is not None:
        return with_child(evaluation, evaluation.child)
    return leaving_without_child(evaluation) if evaluation.job.leaving else without_child(evaluation)
