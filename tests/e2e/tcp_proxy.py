"""A TCP proxy that can play a dead network: frozen connections stay open and bring nothing, as behind a lost router.

Tests put it between a client and the API server. It runs in the test's own event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self


class TcpProxy:
    """Forwards 127.0.0.1:`port` to an upstream; use it as `async with`."""

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._frozen = False
        self._pairs: list[_Pair] = []
        self._server: asyncio.Server | None = None
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.get_running_loop().create_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for pair in self._pairs:
            pair.abort()

    def freeze(self) -> None:
        """From now on no byte passes, in no connection; new ones are accepted and get nothing either."""
        self._frozen = True
        for pair in self._pairs:
            pair.freeze()

    def heal(self) -> None:
        """New connections work again; those that were frozen stay dead, as half-open connections do."""
        self._frozen = False

    def cut(self) -> None:
        """Resets every connection."""
        for pair in self._pairs:
            pair.abort()
        self._pairs.clear()

    @property
    def open_connections(self) -> int:
        """How many clients' connections are open, frozen ones too."""
        return sum(not pair.client_gone for pair in self._pairs)

    def _accept(self) -> asyncio.Protocol:
        pair = _Pair(self._upstream)
        if self._frozen:
            pair.freeze()
        self._pairs = [each for each in self._pairs if not each.client_gone]
        self._pairs.append(pair)
        return pair.client


class _Pair:
    """A client's connection and the one to the upstream that belongs to it."""

    def __init__(self, upstream: tuple[str, int]) -> None:
        self.client = _End(on_data=self._to_upstream, on_end=self._client_ended, on_open=self._connect)
        self.upstream = _End(on_data=self._to_client, on_end=self._upstream_ended, on_open=self._flush)
        self.client_gone = False
        self._address = upstream
        self._frozen = False
        self._waiting: list[bytes] = []
        self._connecting: asyncio.Task[None] | None = None

    def freeze(self) -> None:
        self._frozen = True

    def abort(self) -> None:
        for end in (self.client, self.upstream):
            end.abort()

    def _connect(self) -> None:
        if not self._frozen:
            self._connecting = asyncio.create_task(self._open_upstream())

    async def _open_upstream(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: self.upstream, *self._address)
        except OSError:
            self.client.abort()

    def _flush(self) -> None:
        for data in self._waiting:
            self.upstream.write(data)
        self._waiting.clear()

    def _to_upstream(self, data: bytes) -> None:
        if self._frozen:
            return
        if self.upstream.open:
            self.upstream.write(data)
        else:
            self._waiting.append(data)

    def _to_client(self, data: bytes) -> None:
        if not self._frozen:
            self.client.write(data)

    def _client_ended(self) -> None:
        self.client_gone = True
        self.upstream.abort()

    def _upstream_ended(self) -> None:
        # Over a dead network neither side learns that the other is gone: freezing shows that.
        if not self._frozen:
            self.client.close()


class _End(asyncio.Protocol):
    def __init__(
        self, on_data: Callable[[bytes], None], on_end: Callable[[], None], on_open: Callable[[], None]
    ) -> None:
        self._on_data, self._on_end, self._on_open = on_data, on_end, on_open
        self._transport: asyncio.Transport | None = None

    @property
    def open(self) -> bool:
        return self._transport is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._on_open()

    def data_received(self, data: bytes) -> None:
        self._on_data(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._on_end()

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
