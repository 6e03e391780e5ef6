"""The time that each namespace has in one cycle for jobs that get nothing, so that a flood of them delays only that namespace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection

from gpujob.schedule.waiting import Waiting
from gpujob.values.vocabulary import Verdict


class Shares:
    """The time that decisions without a place took in a cycle, by namespace, and the jobs that wait for devices.

    A job that waits is never left: its age and its priority count in each cycle. One that was never decided, or that nothing free
    helped, is left for the next cycle once its namespace has used up its share, as if it came then.
    """

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        self._clock, self._seconds = clock, seconds
        self._spent: dict[str, float] = defaultdict(float)
        self._waited: set[str] = set()

    def begin(self, queue: Collection[str]) -> None:
        """A cycle begins, with these uids in the queue."""
        self._spent.clear()
        self._waited.intersection_update(queue)

    def leaves(self, job: Waiting) -> bool:
        """Whether a job that needs a decision is left for the next cycle."""
        return self._spent.get(job.namespace, 0.0) >= self._seconds and job.uid not in self._waited

    def now(self) -> float:
        """Seconds of the clock, when a decision begins."""
        return self._clock()

    def count(self, job: Waiting, verdict: Verdict | None, began: float) -> None:
        """Counts a decision that ends now; None is one that failed."""
        if verdict is Verdict.WAITING:
            self._waited.add(job.uid)
        else:
            self._waited.discard(job.uid)
        if verdict is not Verdict.PLACED or job.plan_only:
            self._spent[job.namespace] += self._clock() - began
