"""What every process of ours shares; certificates are no part of it.

| modules | hold |
|---|---|
| process, background, health, tls_self_check, served_certificate | the skeleton: probes, tasks, metrics |
| log, log_options, metrics, retry, free_memory | JSON lines, registry, waits, memory given back |
| serving, acceptor, limits | listeners, signals and drain; how many clients get in, and their bounds |
| connection, buffered_bytes, client_names | one connection, bounded in bytes and seconds; who is admitted |
| fast_path, asgi | answers past ASGI where none has to wait; whole ASGI answers |
"""
