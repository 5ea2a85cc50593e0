"""What an admin should know of a set that has no mistakes, by file and line."""

import pytest

from policies.loading.lint import lint
from tests.policies.support import policy_set

OTHER = "kind: Policy\nname: other\nnamespaces: [n]\n"


def notes(**files):
    return [str(problem) for problem in lint(policy_set(**files))]


def test_the_built_in_policy_leaves_nothing_to_say():
    assert notes() == []


@pytest.mark.parametrize(
    ("text", "line", "note"),
    [
        ("limiter: clearml-image\n", 4, "sets hostPID"),
        ("limiter: none\n", 4, "limits nothing"),
        ("quotas: {queues: {q: {slices: 1}}}\n", 4, "only a quota of the namespace always applies"),
        ("quotas: {namespaces: {m: {slices: 1}}}\n", 4, "pods of m follow policy default"),
        ('fractions: {"0.2": 2}\n', 4, "is limited to 0.2: each such pod leaves 5.0% of a GPU unused"),
        ("slicesPerGpu: 4\n", 4, "4 differs from policy default (8) on the same nvidia.com/gpu-{index}"),
    ],
)
def test_what_is_worth_knowing_names_its_line(text, line, note):
    [found] = notes(other=OTHER + text)
    assert found.startswith(f"other.yaml:{line}: ")
    assert note in found


def test_a_claim_leaves_nothing_of_a_fraction_unused():
    assert notes(other=OTHER + 'fractions: {"0.2": 2}\nresources: {mode: dra}\n') == []


def test_a_limiter_of_a_queue_is_looked_at_too():
    found = notes(queues="kind: Queues\nqueues:\n  q:\n    namespaces: [n]\n    limiter: none\n")
    assert len(found) == 1
    assert found[0].startswith("queues.yaml:5: ")


def test_a_policy_that_no_pod_can_follow_is_named_and_one_of_a_queue_is_not():
    alone = "kind: Policy\nname: alone\n"
    assert "no pod will follow it" in notes(alone=alone)[0]
    assert notes(alone=alone, queues="kind: Queues\nqueues: {q: {policy: alone}}\n") == []
