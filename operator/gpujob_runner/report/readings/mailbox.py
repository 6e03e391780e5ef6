"""Numbers that lie on a device, brought to the host without waiting.

A small tensor is copied into pinned memory behind the work that the program queued anyway, and read later: as long as the
mark that was written there before still stands, the copy has not happened yet. One kernel and one copy for a whole list of
numbers; pinned memory is taken once.
"""

from __future__ import annotations

from typing import Any

SLOTS = 4
ROOM = 16
"""Numbers that one letter holds."""
MARK = -1.5e38
"""Stands where nothing arrived yet: no loss and no flag is this number. Compared as it reads back from 32 bits."""


class Mailbox:
    """Letters under way from a device to the host; `torch` is the module that the program imported."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._slots: Any | None = None
        self._mark = 0.0
        self._under_way: list[Any] = []
        self._free: list[Any] = []

    def can_post(self) -> bool:
        """Whether a letter can be sent now: a slot is free, and the stream is not being captured into a graph."""
        if self._slots is None:
            self._make_slots()
        return bool(self._free) and not self._torch.cuda.is_current_stream_capturing()

    def post(self, numbers: list[Any]) -> None:
        """Sends at most `ROOM` tensors of one element, all on one device, behind the work queued so far."""
        torch = self._torch
        slot = self._free.pop()
        with torch.no_grad():
            letter = torch.stack([number.detach().reshape(()).float() for number in numbers])
            slot[: len(numbers)].copy_(letter, non_blocking=True)
        self._under_way.append((slot, len(numbers)))

    def collect(self) -> list[list[float]]:
        """The letters that arrived since the last call, oldest first."""
        arrived = []
        while self._under_way:
            slot, length = self._under_way[0]
            numbers = slot[:length].tolist()
            if self._mark in numbers:
                break
            slot.fill_(self._mark)
            self._under_way.pop(0)
            self._free.append(slot)
            arrived.append(numbers)
        return arrived

    def _make_slots(self) -> None:
        torch = self._torch
        self._slots = torch.full((SLOTS, ROOM), MARK, dtype=torch.float32, device="cpu").pin_memory()
        self._mark = float(self._slots[0, 0])
        self._free = [self._slots[place] for place in range(SLOTS)]
