"""Main memory and GPU memory that ran out are two reasons, and the message says what would have held the program."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from gpujob.status.observe.child import ran_out_of_memory
from gpujob.status.records.gpu_memory import RanOut, read_ran_out
from gpujob.status.records.objects import PodState
from gpujob.status.records.read_objects import read_child, read_pod_record
from gpujob.values.vocabulary import Label, Reason

GI = 1 << 30
NEW = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.25 GiB of which "
    "5.25 GiB is free. Including non-PyTorch memory, this process has 74.00 GiB memory in use. Of the allocated memory 70.00 GiB is "
    "allocated by PyTorch, and 3.00 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try "
    "setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
)
OLD = (
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.75 GiB total capacity; 12.00 GiB already "
    "allocated; 1.25 GiB free; 13.50 GiB reserved in total by PyTorch)"
)
LAUNCHER = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "
SIZES = RanOut(20 * GI, 71 * GI, int(79.25 * GI))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"step 7\n{NEW}", SIZES),
        (f"[rank3]: {NEW}\n{LAUNCHER}\n", SIZES),
        (NEW.replace("CUDA", "HIP"), SIZES),
        (OLD, RanOut(2 * GI, 12 * GI, int(15.75 * GI))),
        ("RuntimeError: CUDA error: out of memory", RanOut()),
        ("RuntimeError: HIP error: out of memory", RanOut()),
        ("jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1073741824 bytes.",
         RanOut(GI)),
        (NEW.replace("20.00 GiB", "99999999 TiB"), RanOut(None, 71 * GI, int(79.25 * GI))),
        # It went on, and ended for another reason.
        (f"{NEW}\nValueError: no data", None),
        ("CUDA out of memory", None),
        ("MemoryError: ", None),
        (7, None),
        (None, None),
    ],
)  # fmt: skip
def test_what_the_last_exception_says(text: object, found: RanOut | None) -> None:
    assert read_ran_out(text) == found


@pytest.mark.parametrize(
    ("ran_out", "fits"),
    [
        (SIZES, 91 * GI),
        (RanOut(1, 2, 100), 101),
        (RanOut(None, 2, 3), None),
        (RanOut(1, None, 3), None),
        (RanOut(), None),
    ],
)
def test_what_would_have_held_it_is_more_than_the_device_has(ran_out: RanOut, fits: int | None) -> None:
    assert ran_out.fits == fits


FAILED = {
    "metadata": {"name": "p", "labels": {Label.JOB_UID: "u", Label.ATTEMPT: "1"},
                 "ownerReferences": [{"uid": "child", "controller": True}]},
    "spec": {"nodeName": "n"},
    "status": {"phase": "Failed"},
}  # fmt: skip
POD = cast("PodState", read_pod_record(FAILED).state)
CHILD = read_child({"metadata": {"name": "j-1"}, "spec": {"template": {"spec": {}}}})
LOWER = "ask for more with gpuMemory, or lower the batch size"


@pytest.mark.parametrize(
    ("ran_out", "words"),
    [
        (RanOut(), f"; {LOWER}"),
        (RanOut(GI), f": it asked for 1Gi more; {LOWER}"),
        (RanOut(None, 2 * GI), f": it asked for more with 2Gi in use; {LOWER}"),
        (RanOut(None, 2 * GI, 3 * GI), f": it asked for more with 2Gi of 3Gi in use; {LOWER}"),
        (RanOut(None, None, 3 * GI), f"; {LOWER}"),
        (RanOut(GI, 2 * GI, 3 * GI),
         ": it asked for 1Gi more with 2Gi of 3Gi in use; 4G would have held this much: set gpuMemory to more than that, or lower "
         "the batch size"),
    ],
)  # fmt: skip
def test_the_message_names_the_sizes_that_the_program_names(ran_out: RanOut, words: str) -> None:
    found = ran_out_of_memory(replace(POD, ran_out=ran_out), CHILD)
    assert found == (Reason.GPU_OUT_OF_MEMORY, f"pod p on node n ran out of GPU memory{words}")


def test_main_memory_that_ran_out_is_not_gpu_memory() -> None:
    killed = replace(POD, reason="OOMKilled", exit_code=137, ran_out=RanOut(GI))
    assert ran_out_of_memory(killed, CHILD) == (
        Reason.OUT_OF_MEMORY,
        "pod p on node n ran out of main memory (OOMKilled, exit code 137); set resources.memory higher",
    )
    limited = replace(CHILD, needs=CHILD.needs._replace(memory=8 * GI))
    assert ", of which it had 8Gi (OOMKilled" in (ran_out_of_memory(killed, limited) or ("", ""))[1]
    assert ran_out_of_memory(POD, CHILD) is None
