"""Serves HTTP to clients that may be hostile, limited in bytes and seconds.

| modules | hold |
|---|---|
| serving, sockets | listeners and signals |
| acceptor, limits | how many clients are accepted, and their limits |
| connection | connections of uvicorn, limited, and their drain |
| asgi | complete ASGI answers |
| plain_http | a server of a few fixed answers, for a process without ASGI |
"""
