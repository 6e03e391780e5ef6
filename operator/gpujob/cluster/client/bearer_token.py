"""The bearer token of a connection, which the kubelet rotates while the operator runs."""

from __future__ import annotations

from pathlib import Path

import structlog

from gpujob.cluster.client.kubeconfig import Connection, UnusableConnection
from gpujob.cluster.client.rate_limit import Clock

TOKEN_REREAD_AFTER = 60.0
log = structlog.get_logger(__name__)


class Token:
    """The bearer token of a connection; a token file is read again every minute, because bound tokens rotate."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._value = connection.token
        self._file = Path(connection.token_file) if connection.token_file else None
        self._clock = clock
        self._read_at: float | None = None

    def header(self) -> dict[str, str]:
        """The Authorization header, empty if the connection has certificates only."""
        if self._file and (self._read_at is None or self._clock() - self._read_at >= TOKEN_REREAD_AFTER):
            self._reread(self._file)
        return {"Authorization": f"Bearer {self._value}"} if self._value else {}

    def _reread(self, file: Path) -> None:
        try:
            self._value = file.read_text(encoding="utf-8").strip()
        except OSError as error:
            if self._value is None:
                raise UnusableConnection(f"cannot read token file {file}: {error}") from error
            log.warning("token file unreadable, the last token is used", file=str(file), error=str(error))
        self._read_at = self._clock()

    def renewed(self) -> bool:
        """Whether the file now contains another token than the one that was just refused."""
        if self._file is None:
            return False
        refused, self._read_at = self._value, None
        self.header()
        return self._value != refused
