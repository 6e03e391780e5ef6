"""Splits the chunks of a stream into lines."""

from __future__ import annotations

from gpujob.cluster.client.api_errors import BrokenStream

LINE_LIMIT = 16 * 1024 * 1024


class LineSplitter:
    """Splits a stream of chunks into lines; BrokenStream past `limit` bytes without an end of line."""

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, without their ends and without empty ones."""
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines and self._parts:
            # Parts are joined once, not chunk by chunk: a large object would cost the square of its size.
            lines[0] = b"".join((*self._parts, lines[0]))
            self._parts.clear()
            self._size = 0
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
        if self._size > self._limit:
            raise BrokenStream(0, "LineTooLong", f"a line of a watch is longer than {self._limit} bytes")
        return [line for line in lines if line]

    def rest(self) -> bytes:
        """The rest after the last end of line."""
        return b"".join(self._parts)
