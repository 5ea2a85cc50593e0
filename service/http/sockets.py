"""Sockets on which a process listens."""

from __future__ import annotations

import socket


def bind(host: str, port: int) -> socket.socket:
    """Bind a TCP socket; port 0 takes a free one.

    Raises:
        OSError: the address is not available; the message names it.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise OSError(
            f"cannot listen on {host}:{port}: {error.strerror}:"
            " stop what listens there, or choose another address or port"
        ) from error
    return bound


def has_unread_data(connected: socket.socket) -> bool:
    """Return whether the kernel holds unread data from a client."""
    try:
        return bool(connected.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except OSError:
        return False
