"""GPU memory that a program ran out of, by the exception that ended it.

The lines are PyTorch's (c10/cuda/CUDACachingAllocator.cpp, 2.2 to 2.14, and the form before 2.2), those of the CUDA and HIP runtimes
and of XLA.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from gpujob.status.records.last_words import last_exception

_RAN_OUT: Final = re.compile(
    r"(?:CUDA|HIP) out of memory|(?:CUDA|HIP) error: out of memory|OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY"
    r"|cudaErrorMemoryAllocation|hipErrorOutOfMemory|STATUS_ALLOC_FAILED|RESOURCE_EXHAUSTED: Out of memory"
)

_SIZE: Final = r"(\d{1,12}(?:\.\d{1,4})?) (bytes|KiB|MiB|GiB|TiB)"
_TRIED: Final = re.compile(r"[Tt]r(?:ied|ying) to allocate " + _SIZE)
_TOTAL: Final = re.compile(r"total capacity of " + _SIZE)
_IN_USE: Final = re.compile(r"this process has " + _SIZE + r" memory in use")
_UNALLOCATED: Final = re.compile(r"and " + _SIZE + r" is reserved by PyTorch but unallocated")
_TOTAL_BEFORE: Final = re.compile(r"; " + _SIZE + r" total capacity")
_ALLOCATED_BEFORE: Final = re.compile(_SIZE + r" already allocated")

UNITS: Final = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
LARGEST: Final = 1 << 50
"""No size beyond is believed."""


@dataclass(frozen=True, slots=True)
class RanOut:
    """Sizes in bytes; None where the program does not say them."""

    tried: int | None = None
    """What it could not allocate."""
    used: int | None = None
    """What it had in use then, without what PyTorch reserved and did not use."""
    total: int | None = None
    """What the device has, as the framework sees it."""

    @property
    def fits(self) -> int | None:
        """The memory in which this allocation would have fitted; what follows it may need more."""
        if self.tried is None or self.used is None:
            return None
        return max(self.used + self.tried, (self.total or 0) + 1)


def read_ran_out(text: Any) -> RanOut | None:
    """What a termination message reports about GPU memory that ran out; None where it ends with another fault."""
    last = last_exception(text)
    if not _RAN_OUT.search(last):
        return None
    in_use, unallocated = _size(_IN_USE, last), _size(_UNALLOCATED, last)
    used = _size(_ALLOCATED_BEFORE, last) if in_use is None else max(0, in_use - (unallocated or 0))
    return RanOut(_size(_TRIED, last), used, _size(_TOTAL, last) or _size(_TOTAL_BEFORE, last))


def _size(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    size = int(Decimal(found[1]) * UNITS[found[2]]) if found else None
    return size if size is not None and size <= LARGEST else None
