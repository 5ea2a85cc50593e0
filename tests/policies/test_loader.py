"""A directory in, a checked set out, or every mistake with its place."""

import errno
import os
from pathlib import Path

import pytest

import policies
from policies.loading.loader import load_policies, parse_policies, read_directory
from policies.model.problems import PolicyError, UnreadableError
from tests.policies.support import DEFAULT, policy_set, problems

BUILT_IN = Path(policies.__file__).parent


def test_the_packages_own_folder_is_a_policy_directory():
    policy = load_policies(BUILT_IN).resolve("anywhere", None, None)
    assert policy.name == "default"
    assert {text: fraction.slices for text, fraction in policy.fractions.items()} == {
        "0.125": 1,
        "0.250": 2,
        "0.375": 3,
        "0.500": 4,
        "0.625": 5,
        "0.750": 6,
        "0.875": 7,
    }
    assert (policy.mode.name, policy.mode.resource) == ("per-gpu", "nvidia.com/gpu-{index}")
    assert (policy.limiter.name, policy.reserve_mib) == ("hami-core", 0)


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


def test_a_directory_without_files_says_what_to_add(tmp_path):
    with pytest.raises(PolicyError, match=r"^\.: holds no policy file: add one ending in \.yaml or \.yml"):
        load_policies(tmp_path)


def test_a_missing_directory_is_unreadable(tmp_path):
    with pytest.raises(UnreadableError, match=r"^\.: cannot be read: No such file or directory$"):
        load_policies(tmp_path / "absent")


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


def test_a_file_without_read_permission_is_named(tmp_path, monkeypatch):
    (tmp_path / "default.yaml").write_bytes(DEFAULT)

    def refuse(*args):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(UnreadableError, match=r"^default\.yaml: cannot be read: Permission denied$"):
        load_policies(tmp_path)


def test_two_policies_of_one_name_name_each_other():
    assert problems(other="kind: Policy\nname: default\n") == [
        'other.yaml:1: "default" is taken by default.yaml:2: names are unique'
    ]


def test_a_set_without_a_default_policy_is_refused():
    with pytest.raises(PolicyError, match="no policy is named default"):
        parse_policies({"a.yaml": b"kind: Policy\nname: a\n"})


def test_an_empty_file_is_a_mistake_because_a_torn_write_looks_like_it():
    assert problems(torn="") == ["torn.yaml: is empty: delete it or write it anew"]


def test_every_mistake_of_every_file_is_listed_with_file_and_line():
    found = problems(
        a="kind: Policy\nname: a\nslicePerGpu: 8\nresources: {mode: per-gpuu}\n",
        b="kind: Policee\n",
        c="kind: Policy\nname: c\nhideGpusFromOthers: 'yes'\nmemory: {reserveMiB: 1.5}\nenv: {A: 1}\n",
        d="- kind: Policy\n",
        e="name: e\n",
        f="a: [",
    )
    assert found == [
        'a.yaml:3: slicePerGpu: unknown key (did you mean "slicesPerGpu"?)',
        "a.yaml:4: resources.mode: \"per-gpuu\" should be 'per-gpu' or 'pooled' (did you mean \"per-gpu\"?)",
        'b.yaml:1: kind: "Policee" is none of Policy, Limiter, Queues (did you mean "Policy"?)',
        'c.yaml:3: hideGpusFromOthers: "yes" should be a valid boolean',
        "c.yaml:4: memory.reserveMiB: 1.5 must be a whole number",
        'c.yaml:5: env.A: 1 must be quoted: "1"',
        "d.yaml:1: must be a mapping with the key kind",
        "e.yaml:1: kind: key is missing: write kind: Policy, Limiter or Queues",
        "f.yaml:1: is not YAML: did not find expected node content",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('fractions: {"0.5": 3}', 'fractions."0.5": 3 is not what the text says: "0.5" of 8 slices is 4'),
        ('fractions: {"0.3": 2}', 'fractions."0.3": "0.3" is not a whole number of slices (slicesPerGpu 8)'),
        ('fractions: {"nan": 2}', '"nan" is not a plain decimal number such as "0.500"'),
        ('fractions: {"1.5": 12}', "12 slices are neither 1 to 8 of one GPU nor whole GPUs"),
        ("fractions: {0.500: 4}", 'a key must be text: quote it, "0.500"'),
        ("slicesPerGpu: 5", "slicesPerGpu: 5 is not one of 2, 4, 8, 16"),
        ("limiter: hami", 'limiter: "hami" is not defined (did you mean "hami-core"?)'),
        ("limiter: custom", "or add a file with kind: Limiter and name: custom"),
        ("resources: {name: nvidia.com/gpu}", '"nvidia.com/gpu" must end in {index} in mode per-gpu'),
        (
            "resources: {name: 'gpu-{index}'}",
            "must be the name of an extended resource such as nvidia.com/gpu",
        ),
        ("resources: {mode: pooled, name: 'nvidia.com/gpu-{index}'}", "{index} belongs to mode per-gpu"),
        ("resources: {mode: pooled, name: nvidia.com/gpu-0}", '"nvidia.com/gpu-0" means something else'),
        ("resources: {mode: pooled, name: nvidia.com/mig-1g.10gb}", "pods that ask for it are denied"),
        ("resources: {name: 'clear.ml/fraction-{index}'}", "pods that ask for it are denied"),
        ("assume: {gpusPerNode: 1001, gpuMemoryMiB: 1}", "assume.gpusPerNode:"),
        ("env: {A: '{memory}'}", "unknown placeholder {memory}: known are {memory_mib}, {slices}"),
        ("env: {A: 'a}b'}", "a brace outside a placeholder"),
        ("env: {CUDA_DISABLE_CONTROL: 'true'}", "CUDA_DISABLE_CONTROL belongs to the limiter"),
        ("env: {LD_PRELOAD: /x.so}", "LD_PRELOAD belongs to the limiter"),
        ("resources: {mode: pooled}\nenv: {A: '{index}'}", "env.A: {index} is not known in mode pooled"),
        (
            "resources: {mode: pooled}\nreplaceWaiting: {after: 10s}",
            "replaceWaiting: pods of mode pooled have no index to wait on: leave it out, or use mode per-gpu",
        ),
        ("replaceWaiting: {after: 10}", "replaceWaiting.after:"),
        ("replaceWaiting: {after: 0s}", "replaceWaiting.after:"),
        ("replaceWaiting: {after: 1h}", "must be whole seconds or minutes such as 10s or 2m"),
        ("tolerations: [{operator: Equal}]", "tolerations[0]: without a key the operator must be Exists"),
        ("tolerations: [{key: a, operator: Exists, value: b}]", "operator Exists takes no value"),
        ("namespaces: [Team]", '"Team" must be a DNS label'),
        (
            "quotas: {queues: {q: {slices: -1}}}",
            'quotas.queues.q.slices: "-1" should be greater than or equal to 0',
        ),
        ("assume: {gpusPerNode: 8}", "assume.gpuMemoryMiB: key is missing"),
    ],
)
def test_a_policy_that_breaks_a_rule_is_told_which(text, expected):
    assert expected in "\n".join(problems(a=f"kind: Policy\nname: a\n{text}\n"))


def test_two_name_patterns_for_gpus_are_refused():
    found = problems(a="kind: Policy\nname: a\nresources: {name: 'example.com/gpu-{index}'}\n")
    assert found == [
        (
            'default.yaml:1: resources.name: "nvidia.com/gpu-{index}" is not the'
            ' "example.com/gpu-{index}" of policy a:'
            " use one name"
        )
    ]


def test_one_namespace_belongs_to_one_policy():
    text = "kind: Policy\nname: {}\nnamespaces: [team]\n"
    assert problems(a=text.format("a"), b=text.format("b")) == [
        'b.yaml:3: namespaces[0]: "team" belongs to policy a already: keep it in one'
    ]


def test_the_digest_follows_the_content_and_nothing_else():
    digest = policy_set(a="kind: Policy\nname: a\n").digest
    assert len(digest) == 12
    assert policy_set(other="# a comment\nname: a\nkind: Policy\n").digest == digest
    assert policy_set(a="kind: Policy\nname: a\nmemory: {reserveMiB: 1}\n").digest != digest


def test_a_kubelets_mount_is_read_through_its_data_link(tmp_path):
    snapshot = tmp_path / "..2026_11_20"
    snapshot.mkdir()
    (snapshot / "default.yaml").write_bytes(DEFAULT)
    (tmp_path / "..data").symlink_to(snapshot.name)
    (tmp_path / "default.yaml").symlink_to("..data/default.yaml")
    # A file that the ConfigMap has lost, whose link the kubelet has not yet removed.
    (tmp_path / "gone.yaml").symlink_to("..data/gone.yaml")
    assert sorted(read_directory(tmp_path)) == ["default.yaml"]
