"""Programs that are built once, into cache folders that are named by all that decides their content."""

import fcntl
import hashlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

Say = Callable[[str], None]
Make = Callable[[Path], None]
"""Makes what belongs at a path, in a folder of its own."""
SECONDS = 2400
"""For one command. A download may hang, and everything that waits for it with it."""


class BuildError(Exception):
    """A program could not be built; the text ends with what the command said."""


def folder_of(kind: str, said: str, *files: Path) -> Path:
    """Return the cache folder of what a text and the content of files decide; it may not exist yet."""
    content = hashlib.sha256(said.encode())
    for file in files:
        content.update(file.read_bytes())
    return cache() / kind / content.hexdigest()[:16]


def cache() -> Path:
    """Return the folder of all that the tests build."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpu-fraction-injector"


def missing(folder: Path, makers: Mapping[str, Make]) -> list[str]:
    """Return what a cache folder lacks."""
    return [name for name in makers if not (folder / name).exists()]


def make_missing(kind: str, folder: Path, makers: Mapping[str, Make], say: Say) -> Path:
    """Make what a cache folder lacks, with a line before and after each; return the folder.

    A second caller waits for the first. An interrupted build leaves finished programs only.

    Raises:
        BuildError: A command failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if missing(folder, makers):
        with locked(kind, folder / ".lock", say):
            lacking = missing(folder, makers)
            for number, name in enumerate(lacking, 1):
                say(f"{kind}: building {name} ({number} of {len(lacking)}) ...")
                started = time.monotonic()
                with tempfile.TemporaryDirectory(dir=folder, prefix=".build-") as scratch:
                    makers[name](made := Path(scratch, name))
                    made.rename(folder / name)
                say(f"{kind}: built {name} in {time.monotonic() - started:.0f} s")
    return folder


@contextmanager
def locked(kind: str, path: Path, say: Say = lambda _: None) -> Iterator[None]:
    """Hold the lock of a file, and say so where somebody else has it."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{kind}: another build is under way, waiting for it ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def go(verb: str, *arguments: str, folder: Path, **environment: str) -> str:
    """Run a command of Go on a module; what has the same flags is compiled once for all."""
    flags = ("-trimpath", "-buildvcs=false") if verb in {"build", "install"} else ()
    return run("go", verb, *flags, *arguments, folder=folder, GOWORK="off", **environment)


def link_flags(version: str = "") -> str:
    """Return flags of Go's linker: no symbols, and the version of Kubernetes for its own programs."""
    major, minor, *_ = version.split(".") if version else ("", "")
    stamps = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor} if version else {}
    named = [f"-X k8s.io/component-base/version.{name}={value}" for name, value in stamps.items()]
    return " ".join(["-s -w", *named])


def run(*command: str, folder: str | Path | None = None, **environment: str) -> str:
    """Run a command to its end and return what it prints.

    Raises:
        BuildError: It failed, or does not end.
    """
    env = os.environ | environment
    try:
        ended = subprocess.run(
            command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"{' '.join(command)} did not end in {SECONDS} s") from error
    if ended.returncode != 0:
        raise BuildError(f"{' '.join(command)} failed:\n{ended.stderr[-4000:]}")
    return ended.stdout


def say(line: str) -> None:
    """Print a line at once, also into a pipe."""
    print(line, flush=True)  # noqa: T201 - a command's output


def command(why_not: Callable[[], str | None], build: Callable[[Say], Path]) -> None:
    """Build everything as a command does, and print where it lies."""
    if reason := why_not():
        raise SystemExit(reason)
    say(str(build(say)))
