"""Main memory and GPU memory that ran out are two reasons, and the message says what would have held the program."""

from __future__ import annotations

import pytest

from gpujob.status.records.gpu_memory import RanOut, read_ran_out

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
