"""The time that each namespace has in one cycle for jobs that get nothing, so that a flood of them delays only that namespace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection

from gpujob.schedule.pending_job import PendingJob
from gpujob.values.vocabulary import Verdict


class Shares:
    """The time that decisions without a place took in a cycle, by namespace, and the jobs that wait for devices.

    A job that waits is never left: its age and its priority count in each cycle. One that was never decided, or that nothing free
    helped, is left for the next cycle once its namespace has used up its share, as if it came then. The next cycle goes on with those
    that were left, so that each has its turn however often everything must be decided again. Those that are left hold back lower
    priorities for `patience` seconds at most, by `clock`.
    """

    def __init__(self, clock: Callable[[], float], seconds: float, patience: float) -> None:
        self._clock, self._seconds, self._patience = clock, seconds, patience
        self._spent: dict[str, float] = defaultdict(float)
        self._waited: set[str] = set()
        self._had_turn: dict[str, set[str]] = {}
        """By namespace the jobs that were decided since it was last decided whole."""
        self._leaving_since: float | None = None

    def begin(self, queue: Collection[str]) -> None:
        """A cycle begins, with these uids in the queue."""
        self._had_turn = {name: had for name, had in self._had_turn.items() if self._spent[name] >= self._seconds}
        for had_turn in self._had_turn.values():
            had_turn.intersection_update(queue)
        self._spent.clear()
        self._waited.intersection_update(queue)

    def forget(self) -> None:
        """No job waits."""
        self._spent.clear()
        self._waited.clear()
        self._had_turn, self._leaving_since = {}, None

    def end(self, left: int) -> None:
        """A cycle ends that left so many jobs."""
        if not left:
            self._leaving_since = None
        elif self._leaving_since is None:
            self._leaving_since = self._clock()

    def blocks_lower(self) -> bool:
        """Whether no lower priority is decided while jobs of a higher one are left."""
        return self._leaving_since is None or self._clock() - self._leaving_since < self._patience

    def leaves(self, job: PendingJob) -> bool:
        """Whether a job that needs a decision is left for the next cycle."""
        if job.uid in self._waited:
            return False
        spent = self._spent[job.namespace] >= self._seconds
        return spent or job.uid in self._had_turn.get(job.namespace, ())

    def now(self) -> float:
        """Seconds of the clock, when a decision begins."""
        return self._clock()

    def count(self, job: PendingJob, verdict: Verdict | None, began: float) -> None:
        """Counts a decision that ends now; None is one that failed. A job that waits already uses no share: each cycle decides it."""
        waited = job.uid in self._waited
        if verdict is Verdict.WAITING:
            self._waited.add(job.uid)
        else:
            self._waited.discard(job.uid)
            self._had_turn.setdefault(job.namespace, set()).add(job.uid)
        if not waited and (verdict is not Verdict.PLACED or job.plan_only):
            self._spent[job.namespace] += self._clock() - began
