"""What fraction-injector explain cannot explain is named in one line, with its value and the rule."""

import pytest

from tests.cli.running import MANIFESTS, error_line, explain, run

BARE = MANIFESTS / "bare.yaml"


YAML, OBJECT = (
    "is neither YAML nor JSON: ",
    "a document is not a Kubernetes object: it needs apiVersion and kind",
)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("---\n---\n", "contains no object: add a Kubernetes object with apiVersion and kind"),
        ("just text", OBJECT),
        ("kind: [Pod]", OBJECT),
        ('{"kind": "List", "items": [5]}', OBJECT),
        ("kind: Pod\nmetadata: {name: 5}", "Pod: metadata.name is 5: it must be text"),
        ("kind: Deployment\nspec: {template: {metadata: x}}", "Deployment: spec.template.metadata is 'x'"),
        ("kind: CronJob\nspec: {jobTemplate: {spec: x}}", "CronJob: spec.jobTemplate.spec is 'x'"),
        ("kind: Service\nspec: {ports: [{port: 1}]}", "kind Service is not explained: give Pods"),
        ("kind: AdmissionReview", "not a readable AdmissionReview: Object missing required field `request`"),
        ("kind: AdmissionReview\nrequest: {uid: 5}", "not a readable AdmissionReview: Expected `str`"),
        ("kind: Pod\nx: {", YAML),
        ('kind: Pod\nx: !!int "x"', YAML),
        ('kind: Pod\nx: !!timestamp "x"', YAML),
        ("kind: Pod\nx: !custom y", YAML),
        ('kind: Pod\nx: "\\ud800"', YAML),
        ("kind: Pod\nx: " + "9" * 5000, YAML),
        ("kind: Pod\nx: " + "[" * 20_000, "is nested more than 100 deep: no Kubernetes object is"),
        ("kind: Pod\nx: &a [*a]", "holds *a within &a, which has no end: write it out"),
        ("kind: Pod\nx: {~: y}", "Pod: is more than JSON can say: "),
    ],
)
def test_what_cannot_be_explained_is_named_in_one_line_with_the_rule(text, wrong):
    assert error_line(explain("-", text=text)).startswith(f"-: {wrong}")


def test_files_that_cannot_be_read_are_named(tmp_path):
    missing, binary, rule = (
        tmp_path / "missing.yaml",
        tmp_path / "binary.yaml",
        "name a file that can be read",
    )
    binary.write_bytes(b"\xff\xfe\x00")
    assert error_line(run("explain", missing)) == f"{missing}: No such file or directory: {rule}"
    assert error_line(run("explain", tmp_path)) == f"{tmp_path}: Is a directory: {rule}"
    assert error_line(run("explain", binary)) == f"{binary}: is not UTF-8 text: write it as UTF-8"


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (None, ": No such file or directory: name a folder of policy files, or a file"),
        ("kind: [", " is not valid\npolicies.yaml:1: is not YAML: "),
        ("kind: Policy\nname: default\nslices: 7\n", " is not valid\npolicies.yaml:3: slices: "),
    ],
)
def test_policies_that_cannot_be_read_are_named(tmp_path, content, wrong):
    file = tmp_path / "policies.yaml"
    if content:
        file.write_text(content)
    result = run("explain", BARE, "--policies", file)
    assert (result.returncode, result.stderr.startswith(f"fraction-injector: --policies {file}{wrong}")) == (
        2,
        True,
    )


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_explained(tmp_path):
    broken = tmp_path / "broken.yaml"
    broken.write_text("kind: {")
    files = [tmp_path / "missing.yaml", BARE, broken, MANIFESTS / "privileged.yaml"]
    result = explain(*files)
    assert result.returncode == 2
    assert [line.split(": ")[1] for line in result.stderr.splitlines()] == [str(files[0]), str(broken)]
    assert ": allowed (injected)" in result.stdout
    assert ": denied (privileged)" in result.stdout
