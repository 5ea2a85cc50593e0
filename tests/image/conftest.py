"""The image as files, from the Dockerfile; made as root, with the packages buildah and mmdebstrap."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from testbed.image import IMAGE, archive, storage


@dataclass(frozen=True, slots=True)
class Image:
    """The built image.

    Attributes:
        root: Its files, mounted.
        config: Its configuration, as OCI has it.
        bytes_added: What it adds to its base.
    """

    root: Path
    config: dict[str, Any]
    bytes_added: int


@pytest.fixture(scope="session")
def image() -> Iterator[Image]:
    """The image, built and mounted."""
    with storage(hidden=False) as buildah:
        buildah.run("pull", f"docker-archive:{archive()}")
        container = buildah.run("from", "--pull-never", IMAGE)
        config = json.loads(buildah.run("inspect", "--type=image", IMAGE))["OCIv1"]["config"]
        root = Path(buildah.run("mount", container))
        yield Image(root, config, size(root / "opt"))


def size(folder: Path) -> int:
    return sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir())
