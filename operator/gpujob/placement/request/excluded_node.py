"""A node that the job leaves out for a while, since an attempt failed there."""

from __future__ import annotations

from typing import NamedTuple

from gpujob.values.finding import Finding
from gpujob.values.vocabulary import Reason


class ExcludedNode(NamedTuple):
    """A node, until when (RFC 3339) it is left out, the attempt that failed there, and why that failed."""

    node: str
    until: str
    attempt: int
    why: str

    @property
    def finding(self) -> Finding:
        """Why the node does not take the job now."""
        sentence = "node {} is left out until {}, since attempt {} failed there ({})"
        return Finding(Reason.NODE_EXCLUDED, sentence, (self.node, self.until, self.attempt, self.why))
