# ruff: noqa: INP001 - a script, not part of a package
"""`python -m charts.package`: writes the chart of a release, ready for `helm package`.

A packaged chart has no checkout around it: names of pages become addresses of the tagged version, and
`image.repository` is the image that the release has pushed. The chart in the repository stays as it is:
a fork has other addresses.
"""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import yaml

CHART = Path(__file__).with_name("fraction-injector")
LINK = re.compile(r"\]\((?:\.\./)+([^)]+)\)")
CITED = re.compile(r"\[([^\]]+)\]\([^)]+\)")
PAGE = re.compile(r"(?<![\w/.-])docs/[\w/-]+\.md")
NO_IMAGE = "No image is published yet: build it from the Dockerfile and push it."
CHANGELOG = Path(__file__).parents[1] / "CHANGELOG.md"
REPOSITORY = '  repository: ""\n'
ROW = '| `image.repository` | `""` |'


def packaged(
    files: Mapping[str, str], *, changelog: str, image: str, source: str, version: str
) -> dict[str, str]:
    """Return the text files of a release's chart by name.

    Args:
        files: text files of the chart in the repository.
        changelog: text in the form of Keep a Changelog.
        image: repository of the pushed image, with the registry's name.
        source: address of the code's repository.
        version: of the release, without `v`.

    Raises:
        ValueError: a place that must be filled in is not there, or the changelog says nothing of the version.
    """
    page = f"{source}/blob/v{version}"
    made = {name: _with_addresses(text, page) for name, text in files.items()}
    made["values.yaml"] = _replaced(made["values.yaml"], REPOSITORY, f"  repository: {image}\n")
    made["README.md"] = _replaced(made["README.md"], ROW, f'| `image.repository` | `"{image}"` |')
    for name in ("values.yaml", "README.md", "values.schema.json"):
        made[name] = _replaced(made[name], f" {NO_IMAGE}", "")
    made["Chart.yaml"] += _metadata(image, source, version, changes(changelog, version))
    return made


def changes(changelog: str, version: str) -> list[dict[str, str]]:
    """Return what a version changes, each as Artifact Hub's annotation `changes` wants it, without links.

    Raises:
        ValueError: the changelog has no section of the version, or an empty one.
    """
    _, _, section = changelog.partition(f"\n## {version}")
    said, kind = [], ""
    for line in CITED.sub(r"\1", section.partition("\n## ")[0]).splitlines():
        if line.startswith("### "):
            kind = line.removeprefix("### ").strip().lower()
        elif line.startswith("- "):
            said.append({"kind": kind, "description": line.removeprefix("- ")})
        elif said and line.startswith("  "):
            said[-1]["description"] += f" {line.strip()}"
    if not said:
        raise ValueError(f"CHANGELOG.md says nothing of {version}: rename `Unreleased` to it")
    return said


def _with_addresses(text: str, page: str) -> str:
    """Return a text whose links and names of pages work without a checkout."""
    text = LINK.sub(lambda found: f"]({page}/{found[1]})", text)
    return PAGE.sub(lambda found: f"{page}/{found[0]}", text)


def _replaced(text: str, old: str, new: str) -> str:
    if text.count(old) != 1:
        raise ValueError(f"{old!r} is there {text.count(old)} times instead of once")
    return text.replace(old, new)


def _metadata(image: str, source: str, version: str, changed: list[dict[str, str]]) -> str:
    """Return the keys of Chart.yaml that only a release knows. `annotations` is the last key of the file."""
    images = yaml.safe_dump([{"name": "fraction-injector", "image": f"{image}:{version}"}], sort_keys=False)
    links = [{"name": "documentation", "url": f"{source}/tree/v{version}/docs"}]
    notes = {
        "artifacthub.io/images": images,
        "artifacthub.io/links": yaml.safe_dump(links, sort_keys=False),
        "artifacthub.io/changes": yaml.safe_dump(changed, sort_keys=False, width=200),
    }
    annotations = yaml.safe_dump(notes, sort_keys=False)
    lines = "".join(f"  {line}\n" for line in annotations.splitlines())
    return f"{lines}home: {source}\nsources: [{source}]\n"


def main() -> None:
    """Write the chart to the folder that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--image", "--source", "--version"):
        parser.add_argument(option, required=True)
    parser.add_argument("--output", required=True, type=Path)
    given = parser.parse_args()
    shutil.copytree(CHART, given.output)
    files = {
        file.relative_to(CHART).as_posix(): file.read_text() for file in CHART.rglob("*") if file.is_file()
    }
    told = {"changelog": CHANGELOG.read_text(), "source": given.source, "version": given.version}
    for name, text in packaged(files, image=given.image, **told).items():
        (given.output / name).write_text(text)


if __name__ == "__main__":
    main()
