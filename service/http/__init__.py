"""Serves HTTP to clients that may be hostile, limited in bytes and seconds.

| modules | hold |
|---|---|
| serving, sockets | listeners, signals and drain |
| acceptor, limits | how many clients are accepted, and their limits |
| connection, buffered_bytes | one connection of uvicorn, limited |
| asgi | complete ASGI answers |
| plain_http | a server of a few fixed answers, for a process without ASGI |
"""
