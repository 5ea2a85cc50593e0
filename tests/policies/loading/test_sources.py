"""What the documents of a directory are, by kind and name."""

import pytest

from policies.loading.sources import MAX_ENTRIES, presets, read_parts
from policies.model.problems import PolicyError
from tests.policies.support import problems


def test_two_policies_of_one_name_name_each_other():
    assert problems(other="kind: Policy\nname: default\n") == [
        'other.yaml:1: "default" is used at default.yaml:2: names must be unique'
    ]


def test_an_empty_file_is_a_mistake_because_a_torn_write_looks_like_it():
    assert problems(torn="") == ["torn.yaml: is empty: delete it, or write a policy into it"]


def test_the_presets_are_there_without_a_file_and_every_part_knows_its_own():
    parts = read_parts({"default.yaml": b"kind: Policy\nname: default\n"})
    assert set(parts.limiters) == set(presets())
    policy, source = parts.policies["default"]
    assert (policy.name, source.line("name")) == ("default", "default.yaml:2")


def test_more_parts_than_are_read_are_one_problem():
    queues = "".join(f"  q{number}: {{}}\n" for number in range(MAX_ENTRIES + 1))
    with pytest.raises(PolicyError) as caught:
        read_parts({"queues.yaml": f"kind: Queues\nqueues:\n{queues}".encode()})
    [problem] = caught.value.problems
    assert f"more than the maximum of {MAX_ENTRIES}" in str(problem)


def test_problems_of_all_files_come_together():
    with pytest.raises(PolicyError) as caught:
        read_parts({"a.yaml": b"kind: Policy\nname: a\nwrong: 1\n", "b.yaml": b"kind: Policy\nname: [b]\n"})
    assert {str(problem).partition(":")[0] for problem in caught.value.problems} == {"a.yaml", "b.yaml"}
