"""Small images of the tests' own, written as archives that container runtimes import; nothing is pulled."""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

FOLDERS = ("bin", "dev", "etc", "proc", "sys", "tmp", "usr", "usr/local")
COMMANDS = ("sh", "cat", "cp", "echo", "env", "grep", "ls", "mount", "sleep", "tail", "touch", "wc")
PAUSE, WORKLOAD, LIMITER = (f"localhost/{name}:test" for name in ("pause", "workload", "limiter"))
LIBRARY = "k8s-vgpu/lib/nvidia/libvgpu.so.v0"
LIBRARY_TEXT = b"a stand-in for the limiter's library\n"


def write(busybox: Path, folder: Path) -> list[Path]:
    """Write what every node needs: pause, a workload with a shell, and a limiter with its library."""
    shell = {"bin/busybox": busybox.read_bytes()}
    forever = ["/bin/busybox", "sleep", "2147483647"]
    return [
        _archive(folder / "pause.tar", PAUSE, shell, forever),
        _archive(folder / "workload.tar", WORKLOAD, shell, forever, ["FROM_IMAGE=yes"]),
        _archive(folder / "limiter.tar", LIMITER, {**shell, LIBRARY: LIBRARY_TEXT}, forever),
    ]


def _archive(
    target: Path,
    name: str,
    files: Mapping[str, bytes],
    command: Sequence[str],
    environment: Sequence[str] = (),
) -> Path:
    layer = _layer(files)
    digest = hashlib.sha256(layer).hexdigest()
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Env": ["PATH=/bin", *environment], "Entrypoint": list(command)},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    ).encode()
    config_file = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = [{"Config": config_file, "RepoTags": [name], "Layers": [f"{digest}/layer.tar"]}]
    with tarfile.open(target, "w") as archive:
        _add(archive, config_file, config)
        _add(archive, f"{digest}/layer.tar", layer)
        _add(archive, "manifest.json", json.dumps(manifest).encode())
    return target


def _layer(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    parents = {str(parent) for name in files for parent in Path(name).parents} - {".", *FOLDERS}
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        for folder in [*FOLDERS, *sorted(parents)]:
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            layer.addfile(entry)
        for name, content in files.items():
            _add(layer, name, content)
        for command in COMMANDS:
            link = tarfile.TarInfo(f"bin/{command}")
            link.type, link.linkname = tarfile.SYMTYPE, "/bin/busybox"
            layer.addfile(link)
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o755
    archive.addfile(entry, io.BytesIO(content))
