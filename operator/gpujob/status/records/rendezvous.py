"""Whether a pod failed because the pods of its job did not meet, from the last lines of its output.

The lines are PyTorch's: torch/csrc/distributed/c10d (TCPStore.cpp, socket.cpp, ProcessGroupNCCL.cpp), torch/distributed/
elastic/rendezvous and gloo. Any program can print them, so only their numbers are repeated, and they decide nothing except the
final message of a failed job.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpujob.status.records.last_words import last_exception
from gpujob.values.finding import listed

_HOSTED: Final = re.compile(
    r"Timed out after (\d{1,9}) seconds waiting for clients\. (\d{1,6})/(\d{1,6}) clients joined"
)
_SOUGHT: Final = re.compile(r"The client socket has timed out after (\d{1,12})(ms|s)? ?while trying to connect to")
_OTHERWISE: Final = (
    "RendezvousTimeoutError",
    "RendezvousConnectionError",
    "The client socket has failed to connect to any network address of",
    "Gloo connectFullMesh failed with",
    "Timeout waiting for key: ",
    "retrieving ncclUniqueId",
    "wait timeout after ",
    "Socket Timeout",
)
"""Parts of the other lines: c10d, a refused port, gloo's mesh, and keys that a peer never wrote."""


@dataclass(frozen=True, slots=True)
class Missed:
    """A pod's facts about a failed meeting; None if not reported."""

    seconds: int | None = None
    """The length of its wait."""
    joined: int | None = None
    """How many came, including itself, if it was the one that others connect to."""
    wanted: int | None = None
    sought: bool = False
    """Whether it connected to pod 0 without an answer."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A pod of a failed job, with the facts that the sentence needs."""

    name: str
    node: str
    index: int | None
    ran: bool
    failed: bool
    """Whether its program failed by itself."""
    missed: Missed | None


def read_missed(text: Any) -> Missed | None:
    """The rendezvous facts of a termination message; None if it ends with another error."""
    last = last_exception(text)
    if hosted := _HOSTED.search(last):
        seconds, joined, wanted = map(int, hosted.groups())
        return Missed(seconds, joined, wanted)
    if sought := _SOUGHT.search(last):
        return Missed(int(sought[1]) // (1 if sought[2] == "s" else 1000), sought=True)
    return Missed() if any(part in last for part in _OTHERWISE) else None


def why_not_met(pods: Iterable[Ended], wanted: int) -> str:
    """The sentence for a job of `wanted` pods that did not meet; empty if something else ended it.

    A pod that failed by itself with another message is the cause, and the others waited for it.
    """
    known = sorted(pods, key=lambda pod: (pod.index is None, pod.index or 0, pod.name))
    failed = [pod for pod in known if pod.failed]
    if wanted < 2 or not failed or any(pod.missed is None for pod in failed):
        return ""
    sentences = "; ".join(_sentence(pod, pod.missed) for pod in failed[:2] if pod.missed is not None)
    return f"the pods did not meet: {sentences}; {_advice(known, wanted)}"


def _sentence(pod: Ended, missed: Missed) -> str:
    who = f"pod {pod.name} on node {pod.node}"
    within = "" if missed.seconds is None else f" for {missed.seconds} s"
    if missed.joined is not None:
        return f"{who} waited{within} and {missed.joined} of {missed.wanted} joined"
    if missed.sought:
        return f"{who} looked{within} for pod 0 and got no answer"
    return f"{who} waited{within} for the others"


def _advice(known: Sequence[Ended], wanted: int) -> str:
    there = {pod.index for pod in known if pod.ran}
    absent = [index for index in range(wanted) if index not in there]
    if absent and None not in there:
        which = f"pod {absent[0]}" if len(absent) == 1 else f"pods {listed(absent)}"
        return (
            f"of {which} nothing is left that ran: the namespace's events say whether an image, a volume or a node kept it "
            "from starting, else its program never came to the rendezvous"
        )
    return (
        "all pods ran: check that a NetworkPolicy or a mesh lets them reach each other, that GLOO_SOCKET_IFNAME and "
        "NCCL_SOCKET_IFNAME, where set, name an interface that they have, and that every program joins"
    )
