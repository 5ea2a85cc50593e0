"""Sets larger than any admin means: refused in words, before work that grows with the square is done."""

from unittest.mock import patch

import pytest

from policies.loading.compile import MAX_COMBINATIONS
from policies.loading.loader import MAX_TOTAL_BYTES, parse_policies
from policies.loading.sources import MAX_ENTRIES
from policies.model.problems import MAX_KNOWN, MAX_PROBLEMS, MAX_SHOWN, PolicyError, did_you_mean

DEFAULT = b"kind: Policy\nname: default\n"


def policies(number, line=b"namespaces: [n%d]"):
    return b"---\n".join(b"kind: Policy\nname: p%d\n" % each + line % each + b"\n" for each in range(number))


def queues(number, entry=b"{limiter: hami-core}"):
    return b"kind: Queues\nqueues:\n" + b"".join(b"  q%d: %s\n" % (each, entry) for each in range(number))


def problems_of(files):
    with pytest.raises(PolicyError) as caught:
        parse_policies(files)
    return caught.value


def the_one_problem_of(files):
    error = problems_of(files)
    assert len(error.problems) == 1
    return str(error)


@pytest.mark.parametrize("number", [MAX_ENTRIES, 20_000])
def test_more_entries_than_are_read_are_counted_before_anything_is_made_of_them(number):
    with patch("policies.loading.sources.validate", side_effect=AssertionError("no entry is validated")):
        assert the_one_problem_of({"d.yaml": DEFAULT, "q.yaml": queues(number)}) == (
            f".: {number + 1} policies, limiters and queues are more than the maximum of {MAX_ENTRIES}: "
            "name only queues that differ from their namespace's policy"
        )


def test_queues_times_policies_are_bounded():
    files = {"d.yaml": DEFAULT, "p.yaml": policies(200), "q.yaml": queues(1000)}
    assert the_one_problem_of(files) == (
        ".: queues and the policies that their pods may follow make 201000 combinations, at most "
        f"{MAX_COMBINATIONS} are read: give queues namespaces, or one policy"
    )
    # An entry that names its policy is held against that of every namespace all the same.
    files["q.yaml"] = queues(1000, b"{policy: default}")
    assert "make 201000 combinations" in the_one_problem_of(files)
    files["q.yaml"] = queues(1000, b"{namespaces: [n1]}")
    assert len(parse_policies(files).compiled) == 1201


def test_words_are_compared_with_few_others_only():
    known = [f"policy-{number}" for number in range(MAX_KNOWN)]
    assert did_you_mean("policy-1x", known) == ' (did you mean "policy-1"?)'
    assert did_you_mean("policy-1x", [*known, "more"]) == ""
    assert did_you_mean("policy-1" * 1000, known) == ""


@pytest.mark.parametrize(
    "files",
    [
        {"d.yaml": DEFAULT + b"".join(b"key%d: 1\n" % number for number in range(5000))},
        {"d.yaml": DEFAULT + b"namespaces:\n" + b"- a\n" * 5000},
        {"d.yaml": DEFAULT, "p.yaml": policies(1500, b"limiter: hamicore%d")},
        {"d.yaml": DEFAULT, "q.yaml": queues(1500, b"{policy: defualt}")},
    ],
)
def test_many_mistakes_are_named_up_to_a_number(files):
    error = problems_of(files)
    assert 100 <= len(error.problems) <= MAX_PROBLEMS
    lines = str(error).splitlines()
    assert len(lines) <= MAX_SHOWN + 1
    assert (
        len(lines) == len(error.problems)
        or lines[-1] == f"and {len(error.problems) - MAX_SHOWN} more problems"
    )
    assert len(str(error)) < 100_000


def test_a_directory_is_bounded_in_bytes():
    size = 1024 * 1024 - 10
    files = {f"{number}.yaml": b"#" * size for number in range(5)}
    assert the_one_problem_of(files) == (
        f".: has {5 * size} bytes of policy files; the maximum is {MAX_TOTAL_BYTES}: remove some"
    )
