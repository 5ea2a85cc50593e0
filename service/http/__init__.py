"""Serves HTTP to clients that may be hostile, limited in bytes and seconds.

| modules | hold |
|---|---|
| serving, sockets | listeners, signals and drain |
| acceptor, limits | how many clients are accepted, and their limits |
| connection, buffered_bytes, client_names | one connection, limited; names of clients |
| terms | what connections share: uvicorn, which gives requests to an app |
| free_memory | gives memory back after a flood |
| asgi | complete ASGI answers |
| plain_http | a server of a few fixed answers, for a process without ASGI |
"""
