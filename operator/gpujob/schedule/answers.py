"""The result of a demand on one snapshot, and what results of one cycle serve for the next one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from typing import Final

from gpujob.catalog.catalog import Catalog
from gpujob.fleet.pools.fleet import Fleet
from gpujob.placement.engine.choose import Pick, choose
from gpujob.placement.engine.decide import decide, decide_in_pieces
from gpujob.placement.engine.exploration import with_trial
from gpujob.placement.engine.known_results import KnownResults
from gpujob.placement.engine.pieces import Pieces, finished
from gpujob.placement.request.demand import Demand
from gpujob.placement.scoring.candidate import Decision
from gpujob.placement.suggestions.search import fix_in_pieces
from gpujob.placement.suggestions.smaller_gang import with_ways_out
from gpujob.schedule.gains import Gains, gains, remounted
from gpujob.values.vocabulary import Verdict

MOST_KNOWN: Final = 64
"""Demands whose results on pools are kept."""


class Answer:
    """The result of a demand on one snapshot: verdict and choice at once, the whole decision on demand."""

    __slots__ = ("_decision", "_known", "asked", "catalog", "demand", "fleet", "pick")

    def __init__(self, demand: Demand, fleet: Fleet, catalog: Catalog, known: KnownResults | None = None) -> None:
        self.asked, self.catalog, self._known = demand, catalog, known
        self._decide(fleet)

    def _decide(self, fleet: Fleet) -> None:
        self.fleet, self.demand = fleet, with_trial(self.asked, fleet, self.catalog)
        self._decision: Decision | None = None
        if self._known:
            # An equal job was placed: the whole decision is had for less than the choice.
            decision = decide(self.demand, fleet, self.catalog, known=self._known)
            self.pick = Pick(decision.verdict, decision.choice)
            self._decision = decision if decision.choice is not None else None
        else:
            self.pick = choose(self.demand, fleet, self.catalog)

    @staticmethod
    def tries(demand: Demand) -> bool:
        """Whether a demand names a pool to try first by what has room, so that its result is of one snapshot alone."""
        return demand.probe_steps is not None or demand.exploration is not None

    def follow(self, fleet: Fleet) -> None:
        """The result holds on a newer snapshot too: the decision is of that one."""
        if fleet is not self.fleet:
            self.fleet, self._decision = fleet, None

    def on(self, fleet: Fleet) -> Answer:
        """The same result on a later snapshot, where it is known to hold; this one keeps its own."""
        if fleet is self.fleet:
            return self
        other = copy(self)
        other.follow(fleet)
        return other

    def decide_again(self, fleet: Fleet) -> None:
        """The result on a newer snapshot, whatever it is."""
        if fleet is not self.fleet:
            self._decide(fleet)

    def refuses_again(self, fleet: Fleet) -> bool:
        """Whether the demand has no place on this snapshot either; then the result is of that one."""
        pick = choose(self.demand, fleet, self.catalog)
        if pick.choice is not None:
            return False
        self.fleet, self.pick, self._decision = fleet, pick, None
        return True

    @property
    def decision(self) -> Decision:
        """The decision with every candidate and, for an impossible job, the nearest fix; for a waiting one, what would start now."""
        return finished(self.decision_in_pieces())

    def decision_in_pieces(self) -> Pieces[Decision]:
        """The same in pieces that each take no longer than a decision; kept for the next time."""
        if self._decision is None:
            fleet, known = self.fleet, self._known if self.pick.choice is not None else None
            decision = yield from decide_in_pieces(self.demand, fleet, self.catalog, known=known)
            yield
            with_gangs = with_ways_out(decision, fleet, self.catalog)
            yield
            found = yield from fix_in_pieces(with_gangs, fleet, self.catalog)
            if fleet is not self.fleet:
                return found
            self._decision = found
        return self._decision


class LastRejections:
    """The demands that got no place in the last cycle, for the next one: each is decided again only where it may gain by it.

    `facts` is what a demand can depend on besides pools and the quotas of its own namespace: the caller of `begin` says it.
    """

    def __init__(self) -> None:
        self._answers: dict[Demand, Answer] = {}
        self._plans: tuple[Answer, ...] = ()
        """Those of plans with a place, which take nothing from other jobs."""
        self._facts: object = None
        self._all_refused = False
        self._known: dict[Demand, KnownResults] = {}
        self._compared: tuple[Fleet, Fleet, Gains] | None = None

    def begin(self, facts: object) -> None:
        """A cycle begins; with other facts nothing that was decided before holds."""
        if facts != self._facts:
            self._answers, self._known, self._facts = {}, {}, facts

    def forget(self) -> None:
        """No job waits: what is kept of those without a place goes."""
        self._answers, self._plans, self._all_refused = {}, (), False

    def known(self, demand: Demand, fleet: Fleet) -> KnownResults | None:
        """What equal demands found on pools since these facts; None where more than pools changes between two snapshots."""
        if demand.sized_by_model or Answer.tries(demand) or demand.namespace in fleet.quotas:
            return None
        if len(self._known) >= MOST_KNOWN and demand not in self._known:
            self._known.clear()
        return self._known.setdefault(demand, KnownResults())

    def still_valid(self, demand: Demand, fleet: Fleet, catalog: Catalog) -> Answer | None:
        """The answer of the last cycle for this snapshot, if the demand had no place and nothing changed that can give it one: what is
        free counts for a demand that waits, and only facts for one that can never run.
        """
        answer = self._answers.get(demand)
        if answer is None or answer.catalog is not catalog:
            return None
        found = self._gains(answer.fleet, fleet, demand.namespace)
        waits = answer.pick.verdict is Verdict.WAITING
        if found.help_waiting(demand) if waits else found.everything:
            return None
        answer.follow(fleet)
        return answer

    def _gains(self, before: Fleet, now: Fleet, namespace: str) -> Gains:
        """`gains`, computed once for all refusals of one snapshot, in which no quota counts them."""
        if namespace in before.quotas or namespace in now.quotas:
            return gains(before, now, namespace)
        if self._compared is None or self._compared[0] is not before or self._compared[1] is not now:
            self._compared = before, now, gains(before, now, namespace)
        return self._compared[2]

    def keep(self, answers: dict[Demand, Answer], plans: Iterable[Answer], *, all_refused: bool, whole: bool) -> None:
        """The refusals of a cycle, and its plans with a place; `all_refused`: it placed no job and reserved nothing; `whole`: it left
        no job for the next one, so that earlier refusals go.
        """
        self._plans = tuple(plans)
        kept = {demand: each for demand, each in answers.items() if not Answer.tries(demand)}
        self._answers = kept if whole else self._answers | kept
        self._all_refused = all_refused and len(kept) == len(answers)

    def retry(self, fleet: Fleet, catalog: Catalog, facts: object) -> Iterator[bool]:
        """Decides again each class of equal demands whose pools gained something, in pieces: for each of them whether it is
        refused again. A whole cycle is needed after False; the explanations of the others are of `fleet` from now on.
        """
        if not self._all_refused or facts != self._facts:
            yield False
            return
        # What other pods mount and which volumes are taken is part of a demand.
        if any(remounted(each.asked, each.fleet, fleet) for each in (*self._answers.values(), *self._plans)):
            yield False
            return
        for demand, answer in self._answers.items():
            if self.still_valid(demand, fleet, catalog) is None and not answer.refuses_again(fleet):
                yield False
                return
            yield True
        for plan in self._plans:
            plan.decide_again(fleet)
            yield True
