"""Links that an admin puts on the page, such as to a dashboard."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec


class Link(msgspec.Struct, frozen=True, gc=False):
    """A link that the page shows, such as a dashboard."""

    text: str
    address: str


def read_link(text: str) -> Link:
    """Read `TEXT=URL`.

    Raises:
        ValueError: it is something else, or no address of http or https.
    """
    name, _, address = text.partition("=")
    parts = urlsplit(address)
    if not name.strip() or parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(
            f'"{text}" is not TEXT=URL with https or http, such as Grafana=https://grafana.example.com'
        )
    return Link(name.strip(), address)
