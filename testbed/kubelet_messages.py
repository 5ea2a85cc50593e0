"""Makes the messages of `agent.kubelet_api` from its .proto files; needs grpcio-tools."""

from __future__ import annotations

import sys
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "agent" / "kubelet_api"
PROTOS = tuple(sorted(FOLDER.glob("*.proto")))


def generate(target: Path) -> list[Path]:
    """Write the modules of messages below a folder, at the path that they have in the checkout; return them.

    Raises:
        RuntimeError: protoc refuses a .proto file.
    """
    names = [str(proto.relative_to(ROOT)) for proto in PROTOS]
    outputs = [f"--{kind}={target}" for kind in ("python_out", "pyi_out")]
    if protoc.main(["protoc", f"--proto_path={ROOT}", *outputs, *names]) != 0:
        raise RuntimeError(f"protoc refuses one of {', '.join(names)}")
    return sorted((target / FOLDER.relative_to(ROOT)).glob("*_pb2*"))


if __name__ == "__main__":
    generate(ROOT)
    sys.stdout.write("made the messages of the kubelet's interfaces\n")
