"""Code shared by all our processes; certificates are separate.

| modules | hold |
|---|---|
| process, background, health, probes, served_certificate | the skeleton: probes, tasks |
| log, options, metrics, retry, version | JSON logs, command lines, registry, backoff |
| changes, yielding | who waits for changes; long walks that yield to the event loop |
| http | serves HTTP |
"""

PUBLIC = (
    "background",
    "changes",
    "health",
    "http.asgi",
    "http.limits",
    "http.plain_http",
    "http.serving",
    "http.sockets",
    "log",
    "metrics",
    "options",
    "probes",
    "process",
    "retry",
    "served_certificate",
    "turns",
    "version",
    "yielding",
)
"""Modules that other packages import."""
