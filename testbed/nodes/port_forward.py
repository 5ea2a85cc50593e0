"""A port of this machine that leads into a sandbox: `python port_forward.py PORT PID ADDRESS TO-PORT`.

It listens on the loopback device outside, then enters the sandbox's network and connects there.
"""

import asyncio
import ctypes
import os
import socket
import sys
from pathlib import Path

CLONE_NEWNET = 0x40000000  # linux/sched.h
CHUNK = 65536


async def _serve(listener: socket.socket, address: str, port: int) -> None:
    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(address, port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pump(reader, back), _pump(there, writer))

    server = await asyncio.start_server(forward, sock=listener)
    await server.serve_forever()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while chunk := await reader.read(CHUNK):
            writer.write(chunk)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


def main() -> None:
    """Forward until killed."""
    port, pid, address, to_port = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    listener = socket.create_server(("127.0.0.1", port))
    network = os.open(Path(f"/proc/{pid}/ns/net"), os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(network, CLONE_NEWNET) != 0:
        raise SystemExit(f"setns: {os.strerror(ctypes.get_errno())}")
    asyncio.run(_serve(listener, address, to_port))


if __name__ == "__main__":
    main()
