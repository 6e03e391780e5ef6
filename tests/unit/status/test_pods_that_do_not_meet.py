"""Pods that do not meet: recognised by what PyTorch prints, with who waited for whom, and not set off by a pod's false output."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpujob.status.observe.child import observe
from gpujob.status.records.objects import PodState
from gpujob.status.records.read_objects import read_child, read_pod_record
from gpujob.status.records.rendezvous import Missed, read_missed
from gpujob.values.vocabulary import Label, Reason

TRACEBACK = """Traceback (most recent call last):
  File "/usr/local/lib/python3.11/dist-packages/torch/distributed/rendezvous.py", line 215, in _create_c10d_store
    return TCPStore(
           ^^^^^^^^^
"""
HOST = (
    TRACEBACK
    + "torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients. 1/2 clients joined.\n"
)
CLIENT = (
    TRACEBACK
    + "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to connect to "
    "(g-0.g.team.svc, 29500).\n"
)
REFUSED = (
    TRACEBACK + "[rank1]: torch.distributed.DistNetworkError: The client socket has failed to connect to any network "
    "address of (g-0.g, 29500). The client socket has failed to connect to 10.0.0.7:29500 (errno: 111 - Connection refused).\n"
)
C10D = (
    TRACEBACK
    + "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has "
    "failed. See inner exception for details.\n"
)
DYNAMIC = TRACEBACK + "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError\n"
GLOO = TRACEBACK + "RuntimeError: Gloo connectFullMesh failed with [transport/tcp/pair.cc:123] timed out connecting\n"
NCCL = (
    TRACEBACK
    + "[rank1]: torch.distributed.DistBackendError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from "
    "[0] via c10d key-value store by key '0', but store->get('0') got error: wait timeout after 600000ms, keys: /0\n"
)
OF_WORKER = (
    GLOO + TRACEBACK + "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n====\ntrain.py FAILED\n"
)


@pytest.mark.parametrize(
    ("text", "missed"),
    [
        (HOST, Missed(61, 1, 2)),
        (CLIENT, Missed(60, sought=True)),
        (REFUSED, Missed()),
        (C10D, Missed()),
        (DYNAMIC, Missed()),
        (GLOO, Missed()),
        (NCCL, Missed()),
        (OF_WORKER, Missed()),
        (HOST + "[W1128 10:10:35.0 TCPStore.cpp:340] [c10d] a warning at the end\n", Missed(61, 1, 2)),
        # Retries are only warned of, and what follows is another fault.
        (CLIENT + TRACEBACK + "ValueError: no such optimizer\n", None),
        ("[E1128 socket.cpp:1028] [c10d] The client socket has timed out after 4000ms while trying to connect to (a, 1)", None),
        ("print of RendezvousTimeoutError by somebody", None),
        (TRACEBACK + "torch.OutOfMemoryError: HIP out of memory\n", None),
        ("", None),
        (None, None),
        (7, None),
        ({"a": 1}, None),
    ],
)  # fmt: skip
def test_what_pytorch_prints_is_known(text: Any, missed: Missed | None) -> None:
    assert read_missed(text) == missed


@given(st.text(), st.sampled_from(["Error: ", "[rank1]: xError: Timed out after ", "a" * 5000 + "Error"]))
def test_no_text_is_too_strange(text: str, lead: str) -> None:
    read_missed(lead + text)
    read_missed((lead + text) * 500)


def test_numbers_without_end_are_no_numbers() -> None:
    assert read_missed(f"E.Error: Timed out after {'9' * 4000} seconds waiting for clients. 1/2 clients joined") is None


# What the job says


def pod(index: int, code: int, text: str = "", reason: str = "Error") -> PodState:
    ended = {"exitCode": code, "startedAt": "2026-01-01T00:00:00Z", "reason": reason, "message": text}
    state = {"terminated": ended}
    metadata = {
        "name": f"g-{index}",
        "labels": {Label.JOB_UID: "u"},
        "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
    }
    status = {"phase": "Failed", "containerStatuses": [{"name": "train", "state": state}]}
    found = read_pod_record({"metadata": metadata, "spec": {"nodeName": f"n{index}"}, "status": status}).state
    assert found is not None
    return found


def told(pods: list[PodState], wanted: int = 2) -> tuple[Reason, str]:
    conditions = [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]
    child = read_child(
        {"metadata": {"name": "g"}, "spec": {"completions": wanted}, "status": {"conditions": conditions}}
    )
    seen = observe(child, pods)
    return seen.reason, seen.message


def test_a_pod_that_never_came_is_told_by_its_number() -> None:
    assert told([pod(0, 1, HOST)]) == (
        Reason.RENDEZVOUS_TIMEOUT,
        "the pods did not meet: pod g-0 on node n0 waited for 61 s and 1 of 2 joined; of pod 1 nothing is left that ran: the "
        "namespace's events say whether an image, a volume or a node kept it from starting, else its program never came to "
        "the rendezvous",
    )
    assert "; of pods 1, 2 and 3 nothing is left that ran" in told([pod(0, 1, HOST)], 4)[1]


def test_pods_that_all_ran_are_kept_apart_by_something_else() -> None:
    assert told([pod(1, 1, CLIENT), pod(0, 1, HOST)]) == (
        Reason.RENDEZVOUS_TIMEOUT,
        "the pods did not meet: pod g-0 on node n0 waited for 61 s and 1 of 2 joined; pod g-1 on node n1 looked for 60 s for "
        "pod 0 and got no answer; all pods ran: check that a NetworkPolicy or a mesh lets them reach each other, that "
        "GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME, where set, name an interface that they have, and that every program joins",
    )


def test_the_pod_that_failed_by_itself_is_the_cause() -> None:
    reason, message = told([pod(0, 1, HOST), pod(1, 2, "ValueError: no such optimizer")])
    assert reason is Reason.POD_FAILED
    assert message == "pod g-1 on node n1 failed with exit code 2: ValueError: no such optimizer"


def test_a_pod_that_was_ended_with_the_others_is_no_cause() -> None:
    assert told([pod(0, 1, HOST), pod(1, 143)])[0] is Reason.RENDEZVOUS_TIMEOUT
    assert told([pod(0, 143, HOST), pod(1, 137)])[0] is Reason.POD_FAILED


def test_a_pod_that_ran_out_of_memory_is_the_cause_though_it_was_killed() -> None:
    killed = pod(1, 137, reason="OOMKilled")
    assert told([pod(0, 1, HOST), killed]) == (
        Reason.OUT_OF_MEMORY,
        "pod g-1 on node n1 ran out of main memory (OOMKilled, exit code 137); set resources.memory higher",
    )


def test_one_pod_has_nobody_to_meet() -> None:
    assert told([pod(0, 1, CLIENT)], 1)[0] is Reason.POD_FAILED


def test_the_last_lines_of_a_log_are_told_on_one_line() -> None:
    assert told([pod(0, 1, "x" * 600 + "\n\n  \x1b[31mValueError: no such optimizer\n")], 1)[1].endswith(
        "x | \\x1b[31mValueError: no such optimizer"
    )
