"""What conftest.py sets for all tests."""

import asyncio
import contextlib
import os
import threading

import grpc

FORKS = 20


async def _call_until(stopped: threading.Event, called: threading.Event) -> None:
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        while not stopped.is_set():
            with contextlib.suppress(grpc.RpcError):  # it serves no method
                await channel.unary_unary("/a/method")(b"")
            called.set()
    await server.stop(None)


def test_a_child_forked_during_grpc_calls_ends_as_it_should():
    stopped, called = threading.Event(), threading.Event()
    calls = threading.Thread(target=lambda: asyncio.run(_call_until(stopped, called)))
    calls.start()
    try:
        assert called.wait(60)
        ends = set()
        for _ in range(FORKS):
            child = os.fork()
            if not child:
                os._exit(7)
            ends.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        assert ends == {7}
    finally:
        stopped.set()
        calls.join()
