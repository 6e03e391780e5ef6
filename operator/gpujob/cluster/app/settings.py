"""The operator's settings from its environment; read once at start."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

from gpujob.api.fields.patterns import DNS_LABEL
from gpujob.lifecycle.timings import Timings
from gpujob.values.errors import BadInput

_DEFAULT: Final = Timings()
YEAR: Final = 365 * 24 * 3600
"""The longest duration that can be set, in seconds."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings with their defaults; each comes from the variable GPUJOB_<NAME>."""

    namespace: str = "gpujob-system"
    """Where the Lease is."""
    pod_name: str = ""
    """The identity of this process in the Lease and in events."""
    metrics_port: int = 9464
    metrics_authentication: bool = False
    """Whether metrics need a token of who may get /metrics."""
    metrics_tls: str = ""
    """The folder with tls.crt and tls.key with which metrics are served; empty for plain HTTP."""
    health_port: int = 8080
    listen: str = ""
    """The address at which probes and metrics are served; empty: all, of IPv4 and IPv6."""
    watch_namespaces: tuple[str, ...] = ()
    """The namespaces whose GPUJobs it runs; empty: all."""
    site: str = ""
    """The file of the installation's own prices, rows and mirrors; empty for none."""
    log_level: str = "INFO"
    log_format: str = "json"
    write_rate: float = 200.0
    """Writes a second that this process allows itself."""
    provision_seconds: float = _DEFAULT.provision
    """Seconds that a job waits for nodes that an autoscaler must add, before another pool is tried."""
    hold_seconds: float = _DEFAULT.hold
    """Seconds that devices are reserved for a waiting job against those of lower priority; 0 reserves none."""
    unbound_seconds: float = _DEFAULT.unbound
    """Seconds that pods hold the GPUs of nodes to which the scheduler does not bind them."""
    scrape_seconds: float = 15.0
    """Seconds between two readings of a running job's reporter."""


VARIABLES: Final = tuple(f"GPUJOB_{field.name.upper()}" for field in fields(Settings))
"""The variables of the settings."""


def read_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """The settings of an environment; BadInput names the variable that cannot be read."""
    env = os.environ if environment is None else environment
    return Settings(
        namespace=_namespace("GPUJOB_NAMESPACE", (env.get("GPUJOB_NAMESPACE") or "").strip() or "gpujob-system"),
        pod_name=env.get("GPUJOB_POD_NAME") or f"{socket.gethostname()}-{os.getpid()}",
        metrics_port=_port(env, "GPUJOB_METRICS_PORT", 9464),
        metrics_authentication=_one_of(env, "GPUJOB_METRICS_AUTHENTICATION", ("false", "true")) == "true",
        metrics_tls=env.get("GPUJOB_METRICS_TLS") or "",
        health_port=_port(env, "GPUJOB_HEALTH_PORT", 8080),
        listen=_address(env, "GPUJOB_LISTEN"),
        watch_namespaces=_namespaces(env, "GPUJOB_WATCH_NAMESPACES"),
        site=env.get("GPUJOB_SITE") or "",
        log_level=_one_of(env, "GPUJOB_LOG_LEVEL", ("INFO", "DEBUG", "WARNING", "ERROR")),
        log_format=_one_of(env, "GPUJOB_LOG_FORMAT", ("json", "text")),
        write_rate=float(_whole(env, "GPUJOB_WRITE_RATE", 200, 65535)),
        provision_seconds=float(_whole(env, "GPUJOB_PROVISION_SECONDS", int(_DEFAULT.provision), YEAR)),
        hold_seconds=float(_whole(env, "GPUJOB_HOLD_SECONDS", int(_DEFAULT.hold), YEAR)),
        unbound_seconds=float(_whole(env, "GPUJOB_UNBOUND_SECONDS", int(_DEFAULT.unbound), YEAR)),
        scrape_seconds=float(max(1, _whole(env, "GPUJOB_SCRAPE_SECONDS", 15, YEAR))),
    )


def _namespaces(env: Mapping[str, str], name: str) -> tuple[str, ...]:
    words = tuple(dict.fromkeys(filter(None, (word.strip() for word in (env.get(name) or "").split(",")))))
    return tuple(_namespace(name, word, "write names with commas between them") for word in words)


def _namespace(name: str, word: str, remedy: str = "write one such as gpujob-system") -> str:
    if len(word) > 63 or not DNS_LABEL.fits(word):
        raise BadInput(f"{name}: {word[:63]!r} is not the name of a namespace; {remedy}")
    return word


def _port(env: Mapping[str, str], name: str, default: int) -> int:
    return _whole(env, name, default, 65535)


def _address(env: Mapping[str, str], name: str) -> str:
    text = env.get(name) or ""
    try:
        return str(ipaddress.ip_address(text)) if text else ""
    except ValueError:
        raise BadInput(f"{name}: {text!r} is no IP address; leave it empty for all addresses") from None


def _whole(env: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = env.get(name) or str(default)
    if not text.isascii() or not text.isdigit() or len(text) > 18 or int(text) > most:
        raise BadInput(f"{name}: {text!r} is not a whole number from 0 to {most}")
    return int(text)


def _one_of(env: Mapping[str, str], name: str, words: tuple[str, ...]) -> str:
    text = env.get(name) or words[0]
    found = next((word for word in words if word.lower() == text.lower()), None)
    if found is None:
        raise BadInput(f"{name}: {text!r} is none of {', '.join(words)}")
    return found
