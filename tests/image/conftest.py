"""The image, built from the Dockerfile by Debian's buildah on a base of the tests' own.

`make image-test` runs these, as root, with the packages buildah and mmdebstrap; `make test` does not.
"""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).parents[2]
CA_FILE = Path("/etc/ssl/certs/ca-certificates.crt")
PYTHON = "python3,python3-venv,ca-certificates"
BASE, IMAGE = "localhost/python-base:test", "localhost/fraction-injector:test"
REVISION = "0123abc"


def pytest_ignore_collect() -> bool | None:
    return None if os.environ.get("IMAGE_TESTS") else True


class Buildah:
    """Debian's buildah with storage of its own, without a daemon and without containers.

    Args:
        folder: For storage and everything else.
    """

    def __init__(self, folder: Path) -> None:
        config = folder / "storage.conf"
        config.write_text(
            f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/store"\nrunroot = "{folder}/run"\n'
        )
        self._environment = os.environ | {
            "CONTAINERS_STORAGE_CONF": str(config),
            "BUILDAH_ISOLATION": "chroot",
            "TMPDIR": str(folder),
        }

    def run(self, *arguments: str) -> str:
        """Run it and return what it prints."""
        ended = subprocess.run(
            ["buildah", *arguments],
            cwd=CHECKOUT,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout[-4000:]
        return ended.stdout.strip()


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
def image(tmp_path_factory: pytest.TempPathFactory):
    """Base and image, built and mounted."""
    folder = tmp_path_factory.mktemp("image")
    buildah = Buildah(folder)
    bootstrap = ["mmdebstrap", "--variant=minbase", f"--include={PYTHON}", "trixie", f"{folder}/base.tar"]
    made = subprocess.run(bootstrap, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr[-4000:]
    (folder / "Base").write_text("FROM scratch\nADD base.tar /\n")
    buildah.run("bud", "--file", f"{folder}/Base", "--tag", BASE, str(folder))
    secret = ["--secret", f"id=ca,src={CA_FILE}"]
    arguments = ["--build-arg", f"BASE={BASE}", "--build-arg", f"REVISION={REVISION}"]
    buildah.run("bud", *secret, *arguments, "--tag", IMAGE, ".")
    container = buildah.run("from", "--pull-never", IMAGE)
    config = json.loads(buildah.run("inspect", "--type=image", IMAGE))["OCIv1"]["config"]
    root = Path(buildah.run("mount", container))
    yield Image(root, config, size(root / "opt"))
    buildah.run("rm", container)
    buildah.run("rmi", "--all", "--force")


def size(folder: Path) -> int:
    return sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir())
