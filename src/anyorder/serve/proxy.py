"""Behind a proxy: the client's address, the scheme and the path's prefix, read from headers of trusted proxies only."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from anyorder.errors import UsageError

UNIX = "unix"  # a proxy that connects through the server's Unix socket
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Proxies:
    """The proxies that are trusted: addresses, networks (10.0.0.0/8), or `unix`."""

    def __init__(self, named: Sequence[str]) -> None:
        self.unix = UNIX in named
        self.networks = [_network(name) for name in named if name != UNIX]

    def trust(self, host: str | None) -> bool:
        """Is this peer a proxy whose headers are read? A peer on a Unix socket has no address."""
        if host is None:
            return self.unix
        address = parsed(host)
        return address is not None and any(address in network for network in self.networks)

    def client(self, forwarded: Sequence[str]) -> str | None:
        """The address that the nearest trusted proxy saw: the last in the chain that is not a proxy itself.

        Entries before it were written by the client, who may write anything.
        """
        last = None
        for entry in reversed(forwarded):
            address = parsed(entry)
            if address is None:
                return last
            last = str(address)
            if not self.trust(last):
                return last
        return last


class Forwarded:
    """ASGI: sets client, scheme and prefix from the headers of a trusted proxy; other clients' headers are ignored."""

    def __init__(self, app: ASGIApp, proxies: Proxies, root_path: str) -> None:
        self.app, self.proxies, self.root_path = app, proxies, prefix(root_path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request, as the client sent it to the proxy."""
        if scope["type"] == "http":
            scope = dict(scope)
            root = self.root_path
            peer = scope["client"][0] if scope.get("client") else None
            if self.proxies.trust(peer):
                headers = Headers(scope=scope)
                chain = [entry.strip() for line in headers.getlist("x-forwarded-for") for entry in line.split(",")]
                if (client := self.proxies.client(chain)) is not None:
                    scope["client"] = client, 0
                if headers.get("x-forwarded-proto", "").strip() in ("http", "https"):
                    scope["scheme"] = headers["x-forwarded-proto"].strip()
                root = prefix(headers.get("x-forwarded-prefix", root))
            if root and (scope["path"] + "/").startswith(root + "/"):  # a proxy that passes the whole path on
                scope["path"] = scope["path"].removeprefix(root) or "/"
            scope["root_path"] = root
        await self.app(scope, receive, send)


def prefix(path: str) -> str:
    """A path's prefix with one slash before it and none after it; empty where there is none."""
    path = path.strip().strip("/")
    return f"/{path}" if path else ""


def parsed(host: str) -> Address | None:
    """An address, with or without a port and brackets; IPv4 inside IPv6 is IPv4. None for anything else."""
    host = host.strip().strip('"')
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def client_of(host: str | None) -> str:
    """Who shares one rate limit: an address, or the /64 network of an IPv6 address, which one client has as a whole."""
    address = parsed(host or "")
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, 64), strict=False))
    return "unknown" if address is None else str(address)


def _network(name: str) -> Network:
    try:
        return ipaddress.ip_network(name, strict=False)
    except ValueError:
        raise UsageError(
            f"cannot trust the proxy {name!r}: give its address (127.0.0.1), a network (10.0.0.0/8), or {UNIX} for one "
            "that connects through --uds"
        ) from None
