"""Run with `python -m bench.server NAME`: a server that the webhook is compared with, on TLS and a free port.

Both run on the product's own server settings, with a certificate of the same kind. Prints the port once it
serves.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from bench.references import idiomatic, null
from certs.live_context import LiveTlsContext
from certs.self_signed import self_signed
from service.http.serving import Listener, run, serve
from service.http.sockets import bind

APPS = {"A": idiomatic.app, "NULL": null.app}


def main(name: str) -> None:
    """Serve until SIGTERM."""
    context = LiveTlsContext()
    context.swap(self_signed(datetime.now(UTC)).pair)
    listener = Listener(APPS[name], bind("127.0.0.1", 0), context.listener)
    port = listener.socket.getsockname()[1]

    def started() -> None:
        print(port, flush=True)

    run(serve([listener], on_started=started, on_stopping=lambda: None, stop_delay_seconds=0))


if __name__ == "__main__":
    main(sys.argv[1])
