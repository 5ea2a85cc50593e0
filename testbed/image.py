"""The product's image, built from the Dockerfile by Debian's buildah on a base of the tests' own."""

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed import building

CHECKOUT = Path(__file__).parents[1]
CA_FILE = Path("/etc/ssl/certs/ca-certificates.crt")
SUITE = "trixie"
PYTHON = "python3,python3-venv,ca-certificates"
BASE, IMAGE = "localhost/python-base:test", "localhost/fraction-injector:test"
REVISION = "0123abc"
KEPT_S = 6 * 3600
TOOLS = ("buildah", "mmdebstrap")


def why_not() -> str | None:
    """Say why no image can be built here: not root, or no buildah or mmdebstrap. None if all is well."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"the image is built by programs of Debian, and PATH lacks {', '.join(missing)}"
    return None if os.geteuid() == 0 else "the image is built as root"


def cache_folder() -> Path:
    """Where bases and images of earlier runs lie."""
    folder = building.cache() / "images"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Buildah:
    """Debian's buildah with storage of its own, without a daemon and without containers.

    Args:
        folder: For storage and everything else.
        hidden: Keep what it mounts to itself, so that nothing stays mounted whatever becomes of it.
    """

    def __init__(self, folder: Path, *, hidden: bool) -> None:
        self.folder = folder
        self._command = ["unshare", "--mount", "buildah"] if hidden else ["buildah"]
        config = folder / "storage.conf"
        config.write_text(
            f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/store"\nrunroot = "{folder}/run"\n'
        )
        self._environment = {
            "CONTAINERS_STORAGE_CONF": str(config),
            "BUILDAH_ISOLATION": "chroot",
            "TMPDIR": str(folder),
        }

    def run(self, *arguments: str) -> str:
        """Run it and return what it prints."""
        return building.run(*self._command, *arguments, folder=CHECKOUT, **self._environment).strip()


@contextmanager
def storage(*, hidden: bool) -> Iterator[Buildah]:
    """An empty buildah; what it holds is gone when the context closes."""
    with tempfile.TemporaryDirectory(prefix="image-") as scratch:
        buildah = Buildah(Path(scratch), hidden=hidden)
        try:
            yield buildah
        finally:
            buildah.run("rm", "--all")
            buildah.run("rmi", "--all", "--force")


def archive() -> Path:
    """The image as a file that runtimes import, from an earlier run if it had these very sources."""
    file = cache_folder() / f"{_digest_of_sources()}.tar"
    with building.locked("image", cache_folder() / ".archive.lock"):
        if not file.exists():
            made = file.with_suffix(".making")
            made.unlink(missing_ok=True)
            with storage(hidden=True) as buildah:
                _build(buildah)
                buildah.run("push", IMAGE, f"docker-archive:{made}:{IMAGE}")
            made.rename(file)
            for older in cache_folder().glob("*.tar"):  # of other sources; one in use is young
                if time.time() - older.stat().st_mtime > KEPT_S:
                    older.unlink()
    return file


def _build(buildah: Buildah) -> None:
    recipe = buildah.folder / "Base"
    recipe.write_text("FROM scratch\nADD base.tar /\n")
    buildah.run("bud", "--file", str(recipe), "--tag", BASE, str(_base().parent))
    secret = ["--secret", f"id=ca,src={CA_FILE}"]
    arguments = ["--build-arg", f"BASE={BASE}", "--build-arg", f"REVISION={REVISION}"]
    buildah.run("bud", *secret, *arguments, "--tag", IMAGE, ".")


def _base() -> Path:
    """The base's files, from an earlier run where there was one."""
    key = hashlib.sha256(f"{SUITE} {PYTHON}".encode()).hexdigest()[:16]
    folder = cache_folder() / f"base-{key}"
    with building.locked("image", cache_folder() / ".base.lock"):
        if not (folder / "base.tar").exists():
            folder.mkdir(exist_ok=True)
            made = folder / ".base.tar"
            options = ("--variant=minbase", "--format=tar", f"--include={PYTHON}")
            building.run("mmdebstrap", *options, SUITE, str(made))
            made.rename(folder / "base.tar")
    return folder / "base.tar"


def _digest_of_sources() -> str:
    """What the image is made of, as .dockerignore says."""
    digest = hashlib.sha256(f"{SUITE} {PYTHON}".encode())
    lines = (CHECKOUT / ".dockerignore").read_text().splitlines()
    named = [CHECKOUT / line[1:] for line in lines if line.startswith("!")]
    for root in [CHECKOUT / "Dockerfile", CHECKOUT / ".dockerignore", *named]:
        for file in sorted(root.rglob("*")) if root.is_dir() else [root]:
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(f"{file.relative_to(CHECKOUT)} {file.stat().st_size}\n".encode())
                digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
