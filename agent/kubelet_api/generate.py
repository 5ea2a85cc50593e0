"""Makes the messages from the .proto files; needs grpcio-tools, which only developers have."""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
PROTOS = tuple(sorted(FOLDER.glob("*.proto")))


def generate(target: Path) -> list[Path]:
    """Write the modules of messages below a folder, at the path that they have in the checkout; return them.

    Raises:
        RuntimeError: protoc refuses a .proto file.
    """
    from grpc_tools import protoc  # noqa: PLC0415 not there where the agent runs

    names = [str(proto.relative_to(ROOT)) for proto in PROTOS]
    outputs = [f"--{kind}={target}" for kind in ("python_out", "pyi_out")]
    if protoc.main(["protoc", f"--proto_path={ROOT}", *outputs, *names]) != 0:
        raise RuntimeError(f"protoc refuses one of {', '.join(names)}")
    return sorted((target / FOLDER.relative_to(ROOT)).glob("*_pb2*"))


if __name__ == "__main__":
    generate(ROOT)
    sys.stdout.write("made the messages of the kubelet's interfaces\n")
