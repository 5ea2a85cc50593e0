"""What the pages name is there: files, modules, targets of make, subcommands, sections behind links."""

import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cli.app import app

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "bench/*.md", "charts/**/*.md", "examples/**/*.md")
    for page in ROOT.glob(pattern)
    if page.name != "CHANGELOG.md"
)
"""All but the changelog, which tells of files that are gone."""
FOLDERS = sorted(each.name for each in ROOT.iterdir() if each.is_dir() and not each.name.startswith("."))
FILES = {each.relative_to(ROOT).as_posix() for name in FOLDERS for each in (ROOT / name).rglob("*")}
MADE = ("build/", "dist/")
"""Folders that commands of the pages fill."""
SPAN = re.compile(r"`([^`\n]+)`")
PATH = re.compile(rf"(?<![\w/.-])(?:{'|'.join(FOLDERS)})/[\w/.-]*\w/?")
MODULE = re.compile(r"[\w/]+\.py")
TARGET = re.compile(r"(?:^ {4,}|`)(?:\S+=\S+ )*make ([a-z][a-z-]+)", re.MULTILINE)
SUBCOMMAND = re.compile(r"(?:^ *\$? *|bin/|`)fraction-injector ((?:[a-z][a-z-]* ?)+)", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")


def text_of(page):
    return (ROOT / page).read_text()


def exists(name):
    return name.startswith(MADE) or (ROOT / name).exists()


@pytest.mark.parametrize("page", PAGES)
def test_files_and_modules_that_a_page_names_are_there(page):
    spans = SPAN.findall(text_of(page))
    paths = {path for span in spans if "*" not in span and "<" not in span for path in PATH.findall(span)}
    modules = {span for span in spans if MODULE.fullmatch(span)}
    assert {path for path in paths if not exists(path)} == set()
    assert {m for m in modules if not any(f"/{file}".endswith(f"/{m}") for file in FILES)} == set()


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_and_sections(page):
    lost = set()
    for file, section in LINK.findall(text_of(page)):
        target = (ROOT / page).parent / file if file else ROOT / page
        if not target.exists() or (section and section not in sections(target)):
            lost.add((file, section))
    assert lost == set()


def sections(page):
    """The names that GitHub gives a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/")])
def test_no_page_of_the_docs_is_longer_than_a_reader_follows(page):
    assert len(text_of(page).splitlines()) <= 300


@pytest.mark.parametrize("page", [*PAGES, "CHANGELOG.md"])
def test_no_page_has_marks_of_a_merge(page):
    assert re.findall(r"^(?:<{7}|={7}|>{7})(?: .*)?$", text_of(page), re.MULTILINE) == []


@pytest.mark.parametrize("page", PAGES)
def test_commands_that_a_page_names_exist(page):
    targets = set(re.findall(r"^([a-z][a-z-]*):", text_of("Makefile"), re.MULTILINE))
    benches = set(re.search(r"^BENCHES := (.+)$", text_of("Makefile"), re.MULTILINE)[1].split())
    known = targets | {f"bench-{name}" for name in benches}
    assert set(TARGET.findall(text_of(page))) - known == set()
    commands = typer.main.get_command(app).commands
    named = {words.split()[0] for words in SUBCOMMAND.findall(text_of(page))}
    assert named - commands.keys() == set()


@pytest.mark.parametrize("page", PAGES)
def test_no_page_shows_a_digest_of_policies_which_every_change_of_a_preset_makes_stale(page):
    assert re.findall(r"(?:digest |@)[0-9a-f]{12}\b", text_of(page)) == []


def test_the_job_of_the_readme_is_denied_as_the_readme_shows():
    shown = CliRunner().invoke(app, ["explain", str(ROOT / "examples/denied/train.yaml")])
    assert shown.exit_code == 1
    denial = shown.stdout.splitlines()[1].strip()
    assert denial.startswith("clearml-injector/fraction")
    assert denial in " ".join(text_of("README.md").split())
