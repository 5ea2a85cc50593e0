"""Plain HTTP on this machine: health, metrics and pages of the processes under test."""

import httpx

from testbed.process import WAIT_S

# One client for all: each reads a bundle of CAs, 20 ms of CPU, which a poll would pay every time.
# It keeps no connection, because the processes that it asks end and start again.
_CLIENT = httpx.Client(timeout=WAIT_S, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0))


def get(url: str) -> httpx.Response:
    """Send a GET. May be called from several threads.

    Raises:
        httpx.TransportError: Nobody answers.
    """
    return _CLIENT.get(url)


def is_ready(port: int, path: str = "/readyz") -> bool:
    """Whether a process says so on its plain port; not while nobody answers."""
    try:
        return get(f"http://127.0.0.1:{port}{path}").is_success
    except httpx.TransportError:
        return False
