"""Sockets on which a process listens, and what is said where one cannot be had."""

import socket

import pytest

from service.http.sockets import bind


def test_an_address_with_colons_is_ipv6():
    with bind("::1", 0) as bound:
        assert bound.family == socket.AF_INET6


def test_a_port_in_use_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"^cannot listen on 127.0.0.1:{port}: Address already in use: "):
            bind("127.0.0.1", port)
