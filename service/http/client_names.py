"""Admits clients by the names in their certificates."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from ipaddress import ip_address
from typing import Any


def is_admitted(certificate: Mapping[str, Any] | None, names: Collection[str] | None) -> bool:
    """Whether a verified certificate, as ssl's `getpeercert` returns it, is valid for one of `names`.

    A wildcard matches the first label of a name, as for servers. No names admit all clients.
    """
    if names is None:
        return True
    held = {
        value.lower() if kind == "DNS" else _plain(value)
        for kind, value in (certificate or {}).get("subjectAltName", ())
        if kind in ("DNS", "IP Address")
    }
    return any(_covers(held, name.lower()) for name in names)


def _covers(held: Collection[str], name: str) -> bool:
    try:
        return str(ip_address(name)) in held
    except ValueError:
        _, _, parent = name.partition(".")
        return name in held or (bool(parent) and f"*.{parent}" in held)


def _plain(address: str) -> str:
    """Return an IP address in canonical form; any other text unchanged."""
    try:
        return str(ip_address(address.strip()))
    except ValueError:
        return address
