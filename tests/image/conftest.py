"""The image as files, from the Dockerfile; made as root, with the packages buildah and mmdebstrap."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from testbed.image import IMAGE, archive, storage


@pytest.fixture(scope="session")
def image():
    """The image, mounted: its files, its configuration as OCI has it, and the bytes that it adds."""
    with storage(hidden=False) as buildah:
        buildah.run("pull", f"docker-archive:{archive()}")
        container = buildah.run("from", "--pull-never", IMAGE)
        config = json.loads(buildah.run("inspect", "--type=image", IMAGE))["OCIv1"]["config"]
        root = Path(buildah.run("mount", container))
        added = sum(file.lstat().st_size for file in (root / "opt").rglob("*") if not file.is_dir())
        yield SimpleNamespace(root=root, config=config, bytes_added=added)
