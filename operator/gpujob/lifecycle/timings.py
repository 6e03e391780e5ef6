"""The durations of a job's life that settings change or tests shorten, in one value, each with its unit and its reason.

Others stand in the module that uses them, because nothing changes them: bounds of a standstill (`stalls`, `standstill`), the last
deletion of a pod (`order`), how far clocks may differ and for how long (`cost`, `believed_clock`), which grace and which exclusion
are believed (`read_objects`, `waits`), and when progress is worth a write (`progress`, `telemetry`). Those of requests, watches,
the Lease, readings and single writers stand in `cluster`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpujob.status.attempts.probe_runs import ProbeLimits


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds, unless the field says otherwise."""

    # An attempt that starts

    placed: float = 2.0
    """A new child's pods may take this long to run before Placed is written by itself: most run sooner, and one write says both."""
    burst_each: float = 0.5
    """Pods of a burst start more slowly: each other child of the last `placed` seconds makes that time longer by this."""
    burst_longest: float = 8.0
    """The most that a burst makes it longer."""
    starting: float = 5.0
    """A pod may take this long to start before Starting is worth a status write."""
    checking: float = 30.0
    """The same where the preflight has begun: it imports torch, and its end is reported anyway."""
    pending: float = 20.0
    """Pods may be missing or without a node this long before that is worth a status write: a busy cluster is slow."""
    refused: float = 15.0
    """Pods are missing this long before the events of their Job are read, which then are read again after twice as long."""
    refused_reads: int = 4
    """How often that is, for each child: a list of events costs the API server much. No time."""
    unbound: float = 300.0
    """Pods hold the GPUs of nodes to which the scheduler does not bind them. An admin's setting."""
    unbound_gang: float = 60.0
    """The same for a gang, at most: what it holds on some nodes, other gangs wait for."""
    control_plane_silent: float = 900.0
    """Neither the scheduler nor an event says anything of a job's pods this long before it gives their GPUs back: the control plane
    may be upgraded just now, but a scheduler that does not exist never reports. Each further attempt in a row waits `unbound_gang`.
    """
    taken: float = 5.0
    """Pods of others have the room of a job's pods on a node, or the node is deleted or cordoned, this long before the job is placed
    again: they may be ending just now, and watches may be that far apart.
    """
    node_away: float = 20.0
    """The same where the node is NotReady, has a taint or lacks devices: agents and device plugins restart."""
    taken_longest: float = 60.0
    """The longest such wait: it is twice as long after each attempt in a row that lost its node, because another controller takes
    each one.
    """
    rest_factor: int = 3
    """A pool that accepted no pod is tried again after this many times `unbound`: devices are reserved in vain for a quarter of
    the time at most.
    """
    provision: float = 900.0
    """A job waits for nodes that an autoscaler must add, and for the devices of new nodes. An admin's setting."""
    service: float = 2.0
    """A gang's Service is missing this long before it is created again: a deletion may show its Service first."""
    probe: ProbeLimits = field(default_factory=ProbeLimits)
    """Limits of a probe."""

    # An attempt that runs or ends

    failed_pods: float = 5.0
    """A Job has failed without a failed pod for this long before its end is evaluated: watches may be that far apart."""
    retry_first: float = 10.0
    """After the first failure of an attempt before the next attempt is placed; each pause is twice the one before."""
    retry_longest: float = 600.0
    """The longest such pause."""
    node_excluded: float = 600.0
    """The job's next attempts exclude a node on which the infrastructure failed an attempt this long: time for its agents to
    report the fault, or for it to recover.
    """
    clocks: float = 30.0
    """Between two checks whether the API server's clock is right again, while a waiting job leaves out pools or nodes."""
    stuck: float = 300.0
    """A container that cannot start (image, ConfigMap, Secret, runtime) holds GPUs this long: back-offs grow to five minutes."""
    device_fault: float = 30.0
    """A device fault under a running attempt lasts this long before the job moves: agents flicker while they start."""
    outlived: float = 30.0
    """A pod runs on this long after its program, because another container does, before the attempt ends without it."""
    interrupted: float = 120.0
    """After a pod ended on request with exit code 0 the other pods of its gang may end by themselves, with their logs."""
    stall_confirmed: float = 20.0
    """A standstill is seen this long before it counts: longer than the time between two readings, so that two agree."""
    restarting: float = 2.0
    """Pods of an earlier attempt delay the next one this long before Restarting is worth a status write."""
    node_lost: float = 300.0
    """A node is NotReady this long before the next attempt no longer waits for pods on it: the default toleration, after which
    Kubernetes evicts them.
    """
    cascade: float = 10.0
    """A deleted Job's pods run on this long, because a finalizer keeps the Job, before the operator deletes them."""
    forged_end: float = 30.0
    """A final status contradicts a live child this long before it is corrected: watches may be that far apart."""
    progress: float = 300.0
    """Between two status writes of a job whose progress moves little."""
    progress_rate: float = 2.0
    """Status writes a second for progress and numbers of all jobs together."""
    orphans: float = 10.0
    """Between two searches for child Jobs without an owner; one that is seen twice is deleted."""
    budgets: float = 30.0
    """Between two counts of what namespaces with a monthly budget spend; a job that comes and goes in between is not counted."""
    prices: float = 60.0
    """Between two reads of the pools' prices; a changed price goes into the statuses of running jobs."""
    profile_patience: float = 8.0
    """The backoff after which a job ends although its profile was not written."""

    # The queue

    hold: float = 21600.0
    """GPUs are reserved for a waiting job against jobs of lower priority. An admin's setting."""
    impossible: float = 300.0
    """Impossible lasts this long before it is reported of a job that fitted before: nodes come back."""
    explain_again: float = 5.0
    """Between two explanations of a job with the same outcome: explanations cost more than decisions."""
    explain_factor: float = 50.0
    """A job waits this many times as long as its last explanation took: none takes more than 2 percent of the time."""
    explain_slice: float = 0.5
    """Explanations of one round together; the other jobs get theirs in later rounds."""
    numbers_settled: float = 5.0
    """Numbers of a waiting job are stable this long before they are written: while many jobs end they keep changing."""
    numbers: float = 30.0
    """Between two status writes of a waiting job whose numbers change."""
    namespace_share: float = 0.25
    """Of one cycle, for a namespace's decisions about jobs that get nothing and never waited: the rest of them join a later cycle."""
    left_jobs: float = 5.0
    """This long the jobs that such cycles leave hold back lower priorities, which may take what they would get afterwards."""
    loop_slice: float = 0.01
    """Reconciles and a scheduling cycle run this long before they yield to watches, writes and the Lease. With the longest single
    piece, a full explanation of 30 ms, no gap between two turns is longer than 50 ms.
    """

    @property
    def exclusions(self) -> Mapping[str, float]:
        """How long an entry of each of these members of a status counts at most."""
        pool = max(self.provision, self.rest_factor * self.unbound)
        return {"excludedPools": pool, "excludedNodes": self.node_excluded}

    # The loop

    gather: float = 0.02
    """Changes accumulate this long before a round handles them."""
    backoff_first: float = 1.0
    """Before a failed step of a job is repeated for the first time."""
    backoff_longest: float = 300.0
    """The longest such wait; each is twice the one before."""

    backoff_of_writes: float = 60.0
    """The same where the API server refuses a write that is not a child's, or the job changed meanwhile: such answers pass."""
    runner_unused: float = 60.0
    """A namespace has no child this long before its runner ConfigMap is deleted, so that short jobs do not rewrite it each time."""
    runner_every: float = 5.0
    """Between two checks which runner ConfigMaps are needed."""
