"""`python -m gpujob.cluster`: runs the operator until it gets a signal."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Final

import packaging.specifiers  # noqa: F401
import structlog

import gpujob.memory.estimate  # noqa: F401 - like the line above it: a command imports it late, no decision here waits for it
from gpujob.cluster.app import kopf_shell, short_pauses
from gpujob.cluster.app.app import Operator, find_connection
from gpujob.cluster.app.settings import VARIABLES, Settings, read_settings
from gpujob.cluster.client.kubeconfig import Connection, UnusableConnection
from gpujob.values.errors import BadInput

USAGE: Final = (
    "usage: python -m gpujob.cluster\n\n"
    "Runs the operator against the cluster of its pod, else of the kubeconfig's current context, until it gets a signal.\n"
    "It takes no arguments; these variables set what it does:\n"
    + "".join(f"  {name}\n" for name in VARIABLES).rstrip("\n")
)


def main(arguments: Sequence[str] = (), operator: Callable[[Settings, Connection], Operator] = Operator) -> int:
    """The exit code: 0 after a signal or for --help, 1 if a task failed, 2 for unreadable settings or arguments."""
    if arguments:
        asked = set(arguments) <= {"-h", "--help"}
        print(USAGE if asked else f"unexpected argument {arguments[0]!r}\n{USAGE}", file=None if asked else sys.stderr)
        return 0 if asked else 2
    try:
        settings = read_settings()
        connection = find_connection()
        _log_as(settings)
        made = operator(settings, connection)
    except (BadInput, UnusableConnection) as error:
        print(error, file=sys.stderr)
        return 2
    short_pauses.prepare()
    try:
        asyncio.run(kopf_shell.run(made))
    except KeyboardInterrupt:
        return 0
    except Exception:
        structlog.get_logger(__name__).exception("operator ended")
        return 1
    return 0


def _log_as(settings: Settings) -> None:
    """JSON lines or text on stderr; kopf's own messages from WARNING on."""
    level = getattr(logging, settings.log_level)
    renderer = structlog.processors.JSONRenderer() if settings.log_format == "json" else structlog.dev.ConsoleRenderer()
    common: list[structlog.typing.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        processors=[*common, structlog.processors.format_exc_info, renderer],
    )
    # kopf, aiohttp and asyncio log through the standard library: one line of the same form, tracebacks included.
    form = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*common, structlog.stdlib.add_logger_name, structlog.stdlib.ExtraAdder(allow=())],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            renderer,
        ],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(form)
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("kopf").setLevel(logging.WARNING)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
