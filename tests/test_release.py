"""What a release is made of: the workflow and the pages that a stranger looks for."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
WORKFLOWS = ROOT / ".github" / "workflows"


def test_the_release_workflow_grants_no_more_than_each_job_needs_and_says_that_it_has_not_run():
    text = (WORKFLOWS / "release.yml").read_text()
    assert "It has never run" in text
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {}
    assert workflow["jobs"]["checks"]["permissions"] == {"contents": "read"}
    steps = workflow["jobs"]["publish"]["steps"]
    [image] = [step for step in steps if "build-push-action" in step.get("uses", "")]
    assert image["with"]["platforms"] == "linux/amd64,linux/arm64"
    assert sum("actions/attest@" in step.get("uses", "") for step in steps) == 3
    # The index trusts one job, which runs nothing of the checkout.
    assert workflow["jobs"]["package-index"]["environment"] == "pypi"
    assert workflow["jobs"]["package-index"]["permissions"] == {"contents": "read", "id-token": "write"}
    # What a tag or a name says never becomes a part of a script.
    assert not [step for step in steps if "${{" in step.get("run", "")]


def test_the_workflow_of_pull_requests_looks_for_what_is_known_to_be_broken():
    text = (WORKFLOWS / "pull-request.yml").read_text()
    assert "It has never run" in text
    workflow = yaml.safe_load(text)
    jobs = workflow["jobs"]
    assert workflow["permissions"] == {}
    assert set(jobs) == {"checks", "control-plane", "packages", "image", "codeql"}
    # `on` is a boolean to YAML 1.1. A pull request of a stranger gets no secret and no right to write.
    assert set(workflow[True]) == {"pull_request", "push", "schedule"}
    assert all(job["permissions"]["contents"] == "read" for job in jobs.values())
    assert [step["run"] for step in jobs["packages"]["steps"] if "run" in step] == ["make audit"]
    [scan] = [step for step in jobs["image"]["steps"] if "scan-action" in step.get("uses", "")]
    assert (scan["with"]["severity-cutoff"], scan["with"].get("fail-build", True)) == ("high", True)
    assert jobs["codeql"]["strategy"]["matrix"]["language"] == ["python", "javascript-typescript", "actions"]
    for job in jobs.values():
        assert not [step for step in job["steps"] if "${{" in step.get("run", "")]


@pytest.mark.parametrize(
    "name", ["SECURITY.md", "SUPPORT.md", "ROADMAP.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "LICENSE"]
)
def test_a_page_that_strangers_look_for_is_there_and_its_links_lead_somewhere(name):
    text = (ROOT / name).read_text()
    for target in re.findall(r"\]\((?!https://)([^)#:]+)", text):
        assert (ROOT / target).exists(), target
