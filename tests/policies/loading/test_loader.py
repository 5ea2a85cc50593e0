"""A directory in, a checked set out, or every mistake with its place."""

import os
from pathlib import Path

import pytest

import policies
from policies.loading.loader import files_in, load_policies, parse_policies, read_directory
from policies.loading.strict_yaml import read_documents
from policies.model.problems import PolicyError, UnreadableError
from tests.policies.support import DEFAULT, policy_set

BUILT_IN = Path(policies.__file__).parent


def test_default_yaml_says_what_an_empty_policy_means():
    written = load_policies(BUILT_IN).resolve("x", None, None)
    implied = policy_set().resolve("x", None, None)
    assert implied.fractions == written.fractions
    assert implied.mode == written.mode
    assert implied.limiter == written.limiter


def test_only_top_level_yaml_files_without_a_dot_count(tmp_path):
    (tmp_path / "default.yml").write_bytes(DEFAULT)
    (tmp_path / ".hidden.yaml").write_text("not: a policy")
    (tmp_path / "README.md").write_text("# not: [yaml")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "deep.yaml").write_text("not: a policy")
    assert sorted(read_directory(tmp_path)) == ["default.yml"]
    assert load_policies(tmp_path).resolve("x", None, None).name == "default"


def test_unreadable_files_are_named_all_of_them(tmp_path):
    (tmp_path / "default.yaml").write_bytes(DEFAULT)
    (tmp_path / "dangling.yaml").symlink_to(tmp_path / "absent")
    (tmp_path / "folder.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(UnreadableError) as caught:
        load_policies(tmp_path)
    assert [str(problem) for problem in caught.value.problems] == [
        "dangling.yaml: cannot be read: No such file or directory",
        "folder.yaml: cannot be read: Is a directory",
        "pipe.yaml: cannot be read: is not a regular file",
    ]


def in_file(name, content):
    return files_in(name, content, read_documents(name, content))


def test_a_config_map_as_kubectl_prints_it_is_the_folder_of_its_files():
    printed = b"""
apiVersion: v1
data:
  policy-default.yaml: |
    kind: Policy
    maxGpus: 3
    name: default
  second-lock: "0a1b2c3d"
kind: ConfigMap
metadata: {name: fraction-injector-policies, resourceVersion: "7"}
"""
    files = in_file("policies.yaml", printed)
    assert sorted(files) == ["policy-default.yaml", "second-lock"]
    assert parse_policies(files).resolve("x", None, None).max_gpus == 3
    with pytest.raises(PolicyError, match="has no policy file"):
        parse_policies(in_file("other.yaml", b"kind: ConfigMap\nmetadata: {name: other}\n"))


def test_a_file_of_one_policy_has_the_built_in_default_beside_it():
    found = parse_policies(in_file("a.yaml", b"kind: Policy\nname: a\n"))
    assert {name for _, name in found.compiled} == {"a", "default"}


def test_a_set_without_a_default_policy_is_refused():
    with pytest.raises(PolicyError, match="no policy is named default"):
        parse_policies({"a.yaml": b"kind: Policy\nname: a\n"})


def test_a_kubelets_mount_is_read_through_its_data_link(tmp_path):
    snapshot = tmp_path / "..2026_11_20"
    snapshot.mkdir()
    (snapshot / "default.yaml").write_bytes(DEFAULT)
    (tmp_path / "..data").symlink_to(snapshot.name)
    (tmp_path / "default.yaml").symlink_to("..data/default.yaml")
    # A file that the ConfigMap has lost, whose link the kubelet has not yet removed.
    (tmp_path / "gone.yaml").symlink_to("..data/gone.yaml")
    assert sorted(read_directory(tmp_path)) == ["default.yaml"]
