"""Images and actions from outside: named as they were reviewed, and a bump is seen."""

import re
import shutil

import pytest
import yaml

from testbed.references import ACTION, LOCK, ROOT, entries, files, problems, unpinned, write

IMAGES = {each.name: each for each in entries() if each.kind == "image"}
BASE = IMAGES["docker.io/library/python"]
LIMITER = IMAGES["docker.io/projecthami/hamicore"]
COMMIT = "3d3c42e5aac5ba805825da76410c181273ba90b1"
"""Of actions/checkout."""


def test_what_files_name_is_what_was_reviewed():
    assert list(problems()) == []


def test_every_action_is_named_by_its_commit():
    named = [
        found for file, kind in files() if kind == "action" for found in ACTION.finditer(file.read_text())
    ]
    assert len(named) > 15
    assert all(re.fullmatch("[0-9a-f]{40}", found["at"]) for found in named)
    uses = sum(file.read_text().count("uses:") for file, kind in files() if kind == "action")
    assert uses == len(named), "a reference that is not read"


def test_a_release_is_not_made_of_what_has_no_digest():
    """The release workflow asks before it builds anything."""
    without = [each.name for each in entries() if not each.digest]
    assert [each.partition(": ")[2].partition(":")[0] for each in unpinned(entries())] == without
    steps = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())["jobs"]["checks"][
        "steps"
    ]
    assert any("testbed.references --all-pinned" in step.get("run", "") for step in steps)


@pytest.fixture
def copy(tmp_path):
    """The files that name something, and the lock, to be changed."""
    for file in [LOCK, *(file for file, _ in files())]:
        to = tmp_path / file.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, to)
    return tmp_path


def change(root, name, before, after):
    file = root / name
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after, 1))


CHANGES = {
    "another tag of the limiter": (
        "policies/limiters/hami-core.yaml",
        "hamicore:v2.10.0",
        "hamicore:v2.11.0",
        "is not what was reviewed",
    ),
    "a base image without a tag": ("Dockerfile", BASE.text(), BASE.name, "has no tag"),
    "an action by its tag": (
        ".github/workflows/release.yml",
        f"@{COMMIT} # v7.0.1",
        "@v4",
        "is not what was reviewed",
    ),
    "an action without a commit": ("requirements/references.toml", COMMIT, "v4", "the commit of its tag"),
    "an image without a reason": (
        "requirements/references.toml",
        f'unpinned = "{LIMITER.unpinned}"' if LIMITER.unpinned else f'digest = "{LIMITER.digest}"',
        "",
        "or says in `unpinned` why it has none",
    ),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_it_is_reported(kind, copy):
    name, before, after, message = CHANGES[kind]
    assert list(problems(copy)) == []
    change(copy, name, before, after)
    assert any(message in each for each in problems(copy)), list(problems(copy))


def test_a_digest_that_is_entered_is_written_into_the_files(copy):
    digest = "d" * 64
    held = f'digest = "{BASE.digest}"\nreviewed = "{BASE.reviewed}"'
    change(copy, "requirements/references.toml", held, f'digest = "{digest}"\nreviewed = "{digest[:12]}: it"')
    assert any("is not what was reviewed" in each for each in problems(copy))
    assert write(copy) == [copy / "Dockerfile"]
    assert list(problems(copy)) == []
    assert f"python:3.13-slim@sha256:{digest}\n" in (copy / "Dockerfile").read_text()
