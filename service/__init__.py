"""Code shared by all our processes; certificates are separate.

| modules | hold |
|---|---|
| process, background, health, tls_self_check, served_certificate | the skeleton: probes, tasks, metrics |
| log, options, metrics, retry, free_memory | JSON logs, command lines, registry, backoff, memory given back |
| serving, acceptor, limits | listeners, signals and drain; how many clients are accepted, and their limits |
| connection, buffered_bytes, client_names | one connection, limited in bytes and seconds; client names |
| fast_path, asgi | answers that bypass ASGI if they need no waiting; complete ASGI answers |
"""
