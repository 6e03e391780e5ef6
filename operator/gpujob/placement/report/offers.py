"""The offers of a decision: each pool in each gang, its best image and the others by their outcome, for -o wide and the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpujob.placement.scoring.candidate import Candidate, Decision
from gpujob.values.finding import Finding


@dataclass(frozen=True, slots=True)
class Offer:
    """One pool with one gang: its best candidate, and the outcome of its other images."""

    best: Candidate
    alike: tuple[Candidate, ...]
    """Images equal to the best one."""
    refused: tuple[tuple[Finding, tuple[Candidate, ...]], ...]
    """Images that rank lower, by the first reason that the best one does not have, and its numbers."""

    @property
    def images(self) -> int:
        """All images that were tried."""
        return 1 + len(self.alike) + sum(len(images) for _, images in self.refused)


def offers(decision: Decision) -> tuple[Offer, ...]:
    """The candidates by pool and gang, in ranked order: a summary of hundreds."""
    found: dict[tuple[str, str], list[Candidate]] = {}
    for candidate in decision.candidates:
        found.setdefault((candidate.pool.name, candidate.gang.shape), []).append(candidate)
    return tuple(_offer(best, others) for best, *others in found.values())


def _offer(best: Candidate, others: Sequence[Candidate]) -> Offer:
    """The offer of a pool; an image is equal if it has no reason that the best one lacks."""
    shared = {finding.reason for finding in best.reasons}
    alike, refused = [], dict[Finding, list[Candidate]]()
    for each in others:
        own = next((finding for finding in each.reasons if finding.reason not in shared), None)
        if own is None:
            alike.append(each)
        else:
            refused.setdefault(own, []).append(each)
    return Offer(best, tuple(alike), tuple((own, tuple(images)) for own, images in refused.items()))
