"""Containers that do not start: whose fault that is, by the kubelet's reason and the words of its message.

Sources: kubelet (pkg/kubelet/images/types.go, pkg/kubelet/kuberuntime), containerd and the messages of the distribution registry API.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from gpujob.lifecycle.failures.failure import Blame, Failure
from gpujob.status.records.objects import PodState
from gpujob.values.vocabulary import Reason

IMAGE: Final = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
CONTAINER: Final = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})

_WRONG_IMAGE: Final = re.compile(
    r"not found|manifest unknown|does not exist|unauthorized|authentication required|denied|forbidden|no match for platform"
    r"|invalid reference|couldn't parse image|not present with pull policy",
    re.IGNORECASE,
)
"""The registry answers that there is no such image, or none for this job: it is so on every node."""

_WRONG_SPEC: Final = re.compile(
    r"not found|no such file|couldn't find key|permission denied|invalid|must be|forbidden", re.IGNORECASE
)

_OF_NODE: Final = re.compile(
    r"nvidia-container-cli|nvidia-container-runtime|libnvidia|unresolvable CDI devices|/dev/kfd|/dev/dri|no space left",
    re.IGNORECASE,
)
"""What a container runtime says where the node's devices, driver or disk are in the way."""

_LACKS: Final = re.compile(
    r"\b(?:secret|configmap)s? \"[^\"]{1,253}\" not found|non-existent (?:secret|config) key|is forbidden"
)
"""What the kubelet reports about a volume that the job names and that is not there."""


def start_failure(pods: Sequence[PodState], seconds: float, said: str = "") -> Failure | None:
    """The failure of an attempt with a container that has not started for `seconds`; None if each has started or waits for
    something else. `said`: the event of a pod that lacks its volumes, network or sandbox."""
    stuck = next((pod for pod in pods if pod.waiting_reason in IMAGE | CONTAINER and pod.node), None)
    if stuck is None:
        unready = next((pod for pod in pods if pod.unready and not pod.leaving), None)
        return _unready(unready, seconds, said) if unready else None
    image, said = stuck.waiting_reason in IMAGE, stuck.waiting_message
    wrong = stuck.waiting_reason == "InvalidImageName" or bool((_WRONG_IMAGE if image else _WRONG_SPEC).search(said))
    blame = Blame.USER if wrong and not _OF_NODE.search(said) else Blame.INFRASTRUCTURE
    detail = f" ({said})" if said else ""
    message = f"pod {stuck.name} on node {stuck.node} did not start within {seconds:g} seconds: {stuck.waiting_reason}{detail}"
    reason = Reason.IMAGE_NOT_PULLED if image else Reason.CONTAINER_NOT_STARTED
    nodes = (stuck.node,) if blame is Blame.INFRASTRUCTURE else ()
    return Failure(blame, reason, f"{message}; {_remedy(image, blame)}", stuck.node if nodes else "", nodes=nodes)


def _unready(pod: PodState, seconds: float, said: str) -> Failure:
    blame = Blame.USER if _LACKS.search(said) else Blame.INFRASTRUCTURE
    detail = f": {said.removesuffix('.')}" if said else f", `kubectl describe pod {pod.name}` says why"
    remedy = (
        _remedy(False, blame) if blame is Blame.USER else "check the node's volumes, network and RuntimeClass handler"
    )
    message = (
        f"pod {pod.name} on node {pod.node} could not start a container within {seconds:g} seconds{detail}; {remedy}"
    )
    nodes = (pod.node,) if blame is Blame.INFRASTRUCTURE else ()
    return Failure(blame, Reason.CONTAINER_NOT_STARTED, message, pod.node if nodes else "", nodes=nodes)


def _remedy(image: bool, blame: Blame) -> str:
    if blame is Blame.INFRASTRUCTURE:
        return "check the registry and the node's network" if image else "check the node's driver and container runtime"
    return (
        "correct spec.images or spec.imagePullSecrets" if image else "correct what the sentence names in the job's spec"
    )
