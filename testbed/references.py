"""Run with `python -m testbed.references`: write what requirements/references.toml says into the files.

An image or an action that is named by a tag alone is whatever its owner, or a thief of his key, puts there.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
LOCK_NAME = "requirements/references.toml"
LOCK = ROOT / LOCK_NAME
SHOWN = 12
"""Digits of a digest by which a note says what it is about."""
ACTION = re.compile(
    r"(?P<before>uses: )(?P<name>[\w.-]+/[\w.-]+)(?P<path>/[\w./-]+)?@(?P<at>\S+)(?: # (?P<tag>\S+))?"
)
IMAGE = re.compile(
    r"(?P<before>(?:^ARG BASE=|^FROM |^ *image: ))(?P<name>[a-z0-9][\w./-]*(?::[0-9]+/[\w./-]+)?)"
    r":(?P<tag>[\w.-]+)(?:@sha256:(?P<at>[0-9a-f]{64}))?(?=\s|$)",
    re.MULTILINE,
)
UNTAGGED = re.compile(r"^(?:FROM |ARG BASE=| *image: )(?!\$)[a-z0-9][\w./-]*(?:\s|$)", re.MULTILINE)
_COMMIT, _SHA256 = re.compile(r"[0-9a-f]{40}"), re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One reviewed reference."""

    kind: str
    """`action` or `image`."""
    name: str
    tag: str
    digest: str
    """Commit of an action, SHA-256 of an image's manifest; empty where it is not known."""
    unpinned: str
    """Why there is no digest."""
    reviewed: str

    @property
    def about(self) -> str:
        """What its note must begin with."""
        return self.digest[:SHOWN] or self.tag

    def text(self, path: str = "") -> str:
        """The reference as it stands in a file."""
        if self.kind == "action":
            return f"{self.name}{path}@{self.digest} # {self.tag}"
        return f"{self.name}:{self.tag}" + (f"@sha256:{self.digest}" if self.digest else "")


def files(root: Path = ROOT) -> Iterator[tuple[Path, str]]:
    """Every file that names something from outside, and of which kind."""
    for file in sorted((root / ".github" / "workflows").glob("*.y*ml")):
        yield file, "action"
    yield root / "Dockerfile", "image"
    for file in sorted((root / "policies" / "limiters").glob("*.yaml")):
        yield file, "image"


def entries(lock: Path = LOCK) -> list[Entry]:
    """What was reviewed."""
    read = tomllib.loads(lock.read_text())
    return [_entry(kind, each) for kind in ("action", "image") for each in read.get(kind, [])]


def _entry(kind: str, said: dict[str, Any]) -> Entry:
    known = {"digest": "", "unpinned": "", **said}
    return Entry(kind=kind, **known)


def problems(root: Path = ROOT, lock: Path | None = None) -> Iterator[str]:
    """What is wrong with the lock, and what stands in files and not in it."""
    known = entries(lock or root / LOCK_NAME)
    yield from _problems_of_lock(known)
    by_name = {(each.kind, each.name): each for each in known}
    used = set[tuple[str, str]]()
    for file, kind in files(root):
        text, where = file.read_text(), file.relative_to(root)
        for found in (ACTION if kind == "action" else IMAGE).finditer(text):
            entry = by_name.get((kind, found["name"]))
            used.add((kind, found["name"]))
            line = f"{where}:{text.count(chr(10), 0, found.start()) + 1}"
            stands = found[0].removeprefix(found["before"])
            if entry is None:
                yield f"{line}: {stands} is not in {LOCK_NAME}: review it, and enter it there"
            elif stands != entry.text(_path(found)):
                yield f"{line}: {stands} is not what was reviewed: change {LOCK_NAME}, then make references"
        if kind == "image" and (bare := UNTAGGED.search(text)):
            yield f"{where}: {bare[0].strip()} has no tag"
    for kind, name in by_name.keys() - used:
        yield f"{LOCK_NAME}: no file names the {kind} {name} any more: remove it"


def _path(found: re.Match[str]) -> str:
    """What follows an action's repository, such as `/init`."""
    return found.groupdict().get("path") or ""


def _problems_of_lock(known: list[Entry]) -> Iterator[str]:
    for (kind, name), count in Counter((each.kind, each.name) for each in known).items():
        if count > 1:
            yield f"{LOCK_NAME}: {kind} {name} stands there twice"
    for each in known:
        where = f"{LOCK_NAME}: {each.name}"
        if each.kind == "action" and not _COMMIT.fullmatch(each.digest):
            yield f"{where}: an action has the commit of its tag, 40 digits, as digest"
        if each.kind == "image" and bool(each.unpinned) == bool(_SHA256.fullmatch(each.digest)):
            yield f"{where}: an image has a digest of 64 digits, or says in `unpinned` why it has none"
        if not re.match(rf"{re.escape(each.about)}: \S", each.reviewed):
            yield f"{where}: `reviewed` begins with {each.about!r} and says what was looked at"


def write(root: Path = ROOT) -> list[Path]:
    """Write every reference as it was reviewed; return the files that changed."""
    by_name = {(each.kind, each.name): each for each in entries(root / LOCK_NAME)}
    changed = []
    for file, kind in files(root):
        text = file.read_text()

        def reviewed(found: re.Match[str], kind: str = kind) -> str:
            entry = by_name.get((kind, found["name"]))
            return found[0] if entry is None else found["before"] + entry.text(_path(found))

        written = (ACTION if kind == "action" else IMAGE).sub(reviewed, text)
        if written != text:
            file.write_text(written)
            changed.append(file)
    return changed


def unpinned(known: list[Entry]) -> list[str]:
    """What has no digest: a release is not made of it."""
    return [
        f"{LOCK_NAME}: {each.name}:{each.tag} has no digest: {each.unpinned}"
        for each in known
        if each.unpinned
    ]


def main() -> int:
    """Write, and say what is still wrong; with `--all-pinned` also what has no digest yet."""
    for file in write():
        sys.stdout.write(f"wrote {file.relative_to(ROOT)}\n")
    found = [*problems(), *(unpinned(entries()) if "--all-pinned" in sys.argv[1:] else ())]
    sys.stdout.write("".join(f"{line}\n" for line in found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
