"""The chart of a release works without a checkout around it: its links, its image, what a catalogue shows."""

import re
from pathlib import Path

import pytest
import yaml

from charts.package import CHANGELOG, CHART, main, packaged

ROOT = Path(__file__).parents[2]
IMAGE, SOURCE, VERSION = "ghcr.io/somebody/injector", "https://github.com/somebody/injector", "1.2.3"


def files_of(folder):
    return {
        file.relative_to(folder).as_posix(): file.read_text() for file in folder.rglob("*") if file.is_file()
    }


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    folder = tmp_path_factory.mktemp("release") / "fraction-injector"
    changelog = folder.with_name("CHANGELOG.md")
    changelog.write_text(CHANGELOG.read_text().replace("## Unreleased", f"## {VERSION}"))
    options = [f"--image={IMAGE}", f"--source={SOURCE}", f"--version={VERSION}", f"--output={folder}"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("charts.package.CHANGELOG", changelog)
        patch.setattr("sys.argv", ["package", *options])
        main()
    return files_of(folder)


def test_the_image_is_the_pushed_one_and_the_other_values_are_those_of_the_repository(release):
    values, own = (
        yaml.safe_load(text) for text in (release["values.yaml"], (CHART / "values.yaml").read_text())
    )
    assert release.keys() == files_of(CHART).keys()
    assert values["image"]["repository"] == IMAGE
    assert values | {"image": 0} == own | {"image": 0}
    assert "published yet" not in "".join(release.values())
    assert f'| `image.repository` | `"{IMAGE}"` |' in release["README.md"]


def test_pages_have_the_address_of_the_tagged_version_and_exist(release):
    everything = "".join(release.values())
    assert "](.." not in everything
    named = re.findall(rf"{re.escape(SOURCE)}/blob/v1\.2\.3/([\w/.-]+\.md)", everything)
    assert len(set(named)) >= 5
    assert [name for name in set(named) if not (ROOT / name).is_file()] == []
    assert re.findall(r"(?<![\w/.-])docs/[\w/-]+\.md", release["templates/NOTES.txt"]) == []


def test_a_catalogue_is_told_home_images_and_links(release):
    chart, own = (
        yaml.safe_load(text) for text in (release["Chart.yaml"], (CHART / "Chart.yaml").read_text())
    )
    notes = chart.pop("annotations")
    assert (chart.pop("home"), chart.pop("sources")) == (SOURCE, [SOURCE])
    assert notes.items() > own.pop("annotations").items()
    assert chart == own
    [image] = yaml.safe_load(notes["artifacthub.io/images"])
    assert image["image"] == f"{IMAGE}:{VERSION}"
    assert yaml.safe_load(notes["artifacthub.io/links"])[0]["url"].startswith(SOURCE)
    changes = yaml.safe_load(notes["artifacthub.io/changes"])
    assert {change["kind"] for change in changes} == {"added", "changed", "removed"}
    assert not [change for change in changes if "](" in change["description"]]


def test_the_chart_names_its_custom_resources_for_a_catalogue():
    notes = yaml.safe_load((CHART / "Chart.yaml").read_text())["annotations"]
    crds = [yaml.safe_load(file.read_text()) for file in sorted((CHART / "files" / "crds").glob("*.yaml"))]
    assert [
        (each["kind"], each["name"], each["version"]) for each in yaml.safe_load(notes["artifacthub.io/crds"])
    ] == [
        (crd["spec"]["names"]["kind"], crd["metadata"]["name"], crd["spec"]["versions"][0]["name"])
        for crd in crds
    ]


@pytest.mark.parametrize(
    ("values", "version", "said"),
    [
        ("", VERSION, "is there 0 times instead of once"),
        (None, "9.9.9", "CHANGELOG.md says nothing of 9.9.9"),
    ],
    ids=["no place to fill in", "a version without changes"],
)
def test_a_release_that_lacks_something_is_refused(values, version, said):
    files = files_of(CHART) | ({"values.yaml": values} if values is not None else {})
    with pytest.raises(ValueError, match=said):
        packaged(files, changelog=f"\n## {VERSION}\n", image=IMAGE, source=SOURCE, version=version)
