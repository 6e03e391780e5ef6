"""Fetches one page of a pod's reporter: bounded in time and size, without redirects, and only at addresses that a pod can have."""

from __future__ import annotations

import errno
import ipaddress
from typing import Final

import aiohttp
from yarl import URL

from gpujob.cluster.metrics.exposition import MOST_BYTES, UnreadableReport
from gpujob.cluster.queue.step_slots import StepSlots

TIMEOUT: Final = 3.0
"""The most seconds of one reading."""

AT_ONCE: Final = 32
"""Readings of one namespace in flight at the same time."""

AT_ONCE_IN_ALL: Final = 2 * AT_ONCE
"""Readings in flight at the same time: a share of them is left to one more namespace."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

OF_CLOUDS: Final = frozenset(map(ipaddress.ip_address, ("168.63.129.16", "100.100.100.200", "fd00:ec2::254")))
"""Metadata addresses of Azure, Alibaba and AWS that are not link-local as elsewhere."""


class Unreached(Exception):
    """No reply; the message gives the network error in a few words."""


OF_PROXIES: Final = frozenset({403, 407, 502, 503, 504})
"""Statuses by which a proxy answers in the place of a pod; a reporter gives none of them."""


class Proxied(Unreached):
    """A proxy answered in the pod's place."""


class Silent(Unreached):
    """The connection was accepted, and nothing came: the process is stopped, or keeps Python's lock."""


class Refused(Exception):
    """The pod exists and nothing listens on the port."""


def reading_session() -> aiohttp.ClientSession:
    """A session that keeps nothing: no connection, no cookie, no proxy of the environment."""
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=TIMEOUT, sock_connect=TIMEOUT / 2),
        connector=aiohttp.TCPConnector(limit=AT_ONCE_IN_ALL, force_close=True, use_dns_cache=False),
        cookie_jar=aiohttp.DummyCookieJar(),
        # A few bytes could become many.
        auto_decompress=False,
        trust_env=False,
    )


def reading_slots() -> StepSlots:
    """Slots for readings, shared by the namespaces."""
    return StepSlots(AT_ONCE, AT_ONCE_IN_ALL)


def pod_address(text: str) -> Address:
    """The address in a pod's status; raises Unreached for an address that no pod has.

    A user who can write the status of a pod could otherwise send the operator to itself, or to a node's metadata service.
    """
    try:
        host = ipaddress.ip_address(text)
    except ValueError:
        raise Unreached("its address is none") from None
    # IPv6 that has an IPv4 address inside is of the reserved or the tunnels' ranges.
    tunnel = isinstance(host, ipaddress.IPv6Address) and (host.sixtofour or host.teredo or host.scope_id)
    here = host.is_loopback or host.is_unspecified or host.is_link_local
    if here or host.is_multicast or host.is_reserved or tunnel or host in OF_CLOUDS:
        raise Unreached(f"no pod has the address {host}")
    return host


async def fetch(session: aiohttp.ClientSession, host: Address, port: int, path: str = "/metrics") -> bytes:
    """The body that a reporter serves at a path, of at most MOST_BYTES and one byte; raises Refused, Unreached or a kind of it, or
    UnreadableReport for a reply of another program.
    """
    try:
        url = URL.build(scheme="http", host=str(host), port=port, path=path)
        async with session.get(url, allow_redirects=False, headers={"Accept-Encoding": "identity"}) as answer:
            if answer.status != 200:
                fault = Proxied if answer.status in OF_PROXIES else UnreadableReport
                raise fault(f"HTTP status {answer.status}")
            return await _at_most(answer.content, MOST_BYTES + 1)
    except aiohttp.ClientConnectorError as error:
        if error.os_error.errno == errno.ECONNREFUSED:
            raise Refused from error
        raise Unreached(errno.errorcode.get(error.os_error.errno or 0, "no connection")) from error
    except aiohttp.ConnectionTimeoutError:
        raise Unreached(f"no connection within {TIMEOUT / 2:g} seconds") from None
    except TimeoutError:
        raise Silent(f"no reply within {TIMEOUT:g} seconds") from None
    except (aiohttp.ClientError, OSError) as error:
        raise Unreached(type(error).__name__) from error


async def _at_most(stream: aiohttp.StreamReader, limit: int) -> bytes:
    parts, size = [], 0
    async for part in stream.iter_any():
        parts.append(part)
        size += len(part)
        if size >= limit:
            break
    return b"".join(parts)[:limit]
