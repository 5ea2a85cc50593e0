"""Run with `python -m bench.server NAME`: one of the servers that a bench compares, on TLS and a free port.

All run on the product's own server settings, with a certificate of the same kind. Prints the port once it
serves.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.instant_placer import ReadyPlacer
from bench.references import idiomatic, null
from certs.live_context import LiveTlsContext
from certs.self_signed import self_signed
from policies.loading.loader import load_policies
from service.http.serving import Listener, run, serve
from service.http.sockets import bind
from service.log import configure_logging
from service.metrics import new_registry
from webhook.app import WebhookApp
from webhook.decision_log import DecisionLog
from webhook.metrics import WebhookMetrics
from webhook.patch_cache.cache import PatchCache
from webhook.review import Reviewer
from webhook.rules import Rules


def ours() -> Any:
    """The webhook as its process puts it together, but for placement, which is answered at once."""
    configure_logging()
    policies = load_policies(Path(__file__).parent.parent / "policies")
    metrics = WebhookMetrics(new_registry())
    return WebhookApp(
        Reviewer(lambda: policies, PatchCache(Rules()), ReadyPlacer(), DecisionLog(metrics)),
        metrics,
    )


APPS: Mapping[str, Callable[[], Any]] = {
    "ours": ours,
    "A": lambda: idiomatic.app,
    "NULL": lambda: null.app,
}


def main(name: str) -> None:
    """Serve until SIGTERM."""
    context = LiveTlsContext()
    context.swap(self_signed(datetime.now(UTC)).pair)
    app = APPS[name]()
    listener = Listener(app, bind("127.0.0.1", 0), context.listener)
    port = listener.socket.getsockname()[1]
    run(
        serve(
            [listener],
            on_started=lambda: print(port, flush=True),
            on_stopping=lambda: None,
            stop_delay_seconds=0,
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
