"""PyTorch's caching allocator without a GPU: how much it holds for tensors that are made and freed in some order.

The rules are those of c10/cuda/CUDACachingAllocator.cpp (PyTorch 2, no expandable segments, one stream): sizes round to
512 bytes; tensors up to 1 MiB share segments of 2 MiB, below 10 MiB of 20 MiB, larger ones get a segment of their own;
the smallest free block that is large enough is taken, and its rest stays free if it is larger than 1 MiB (512 bytes among
the small); neighbours that are free become one block again.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import Final

MIB: Final = 2**20
ROUND: Final = 512
SMALL: Final = MIB
SMALL_SEGMENT: Final = 2 * MIB
SHARED_BELOW: Final = 10 * MIB
SHARED_SEGMENT: Final = 20 * MIB
ROUND_LARGE: Final = 2 * MIB


@dataclass(eq=False, slots=True)
class Block:
    """A part of a segment, in use or free."""

    size: int
    number: int
    """Blocks of one size are taken in the order of their segments."""
    small: bool
    free: bool = False
    before: Block | None = None
    after: Block | None = None


class Allocator:
    """Bytes that are held and in use, and the most of both."""

    def __init__(self) -> None:
        self.held = self.most_held = self.used = self.most_used = 0
        self._segments = 0
        self._free: dict[bool, list[tuple[int, int, Block]]] = {True: [], False: []}

    def make(self, size: int) -> Block:
        """A block for a tensor of so many bytes."""
        size = max(-(-size // ROUND), 1) * ROUND
        block = self._fitting(size, size <= SMALL)
        self._split(block, size)
        self.used += block.size
        self.most_used = max(self.most_used, self.used)
        return block

    def drop(self, block: Block) -> None:
        """Frees a tensor's block."""
        self.used -= block.size
        block.free = True
        before, after = block.before, block.after
        if before is not None and before.free:
            self._take(before)
            block.size, block.number, block.before = block.size + before.size, before.number, before.before
            if block.before is not None:
                block.before.after = block
        if after is not None and after.free:
            self._take(after)
            block.size, block.after = block.size + after.size, after.after
            if block.after is not None:
                block.after.before = block
        self._put(block)

    def _fitting(self, size: int, small: bool) -> Block:
        blocks = self._free[small]
        at = bisect.bisect_left(blocks, size, key=lambda entry: entry[0])
        if at < len(blocks):
            block = blocks.pop(at)[2]
            block.free = False
            return block
        own = -(-size // ROUND_LARGE) * ROUND_LARGE
        segment = SMALL_SEGMENT if small else SHARED_SEGMENT if size < SHARED_BELOW else own
        self.held += segment
        self.most_held = max(self.most_held, self.held)
        self._segments += 1
        return Block(segment, self._segments << 48, small)

    def _split(self, block: Block, size: int) -> None:
        rest = block.size - size
        if rest >= ROUND if block.small else rest > SMALL:
            new = Block(rest, block.number + size, block.small, True, block, block.after)
            if block.after is not None:
                block.after.before = new
            block.after, block.size = new, size
            self._put(new)

    def _put(self, block: Block) -> None:
        bisect.insort(self._free[block.small], (block.size, block.number, block))

    def _take(self, block: Block) -> None:
        blocks = self._free[block.small]
        blocks.pop(bisect.bisect_left(blocks, (block.size, block.number), key=lambda entry: entry[:2]))
