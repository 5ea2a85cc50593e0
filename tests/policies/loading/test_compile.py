"""What is wrong with queues under every policy, and the digest of a set."""

import pytest

from tests.policies.support import policy_set, problems


@pytest.mark.parametrize(
    ("queues", "expected"),
    [
        ("{a.b: {}, a_b: {}}", 'queues.a_b: becomes the label "a-b", like queue "a.b"'),
        ("{a: {id: x}, b: {id: x}}", 'queues.b.id: "x" is the id of queue "a" already'),
        ("{a: {policy: defualt}}", 'policy "defualt" is not defined (did you mean "default"?)'),
        ("{a: {limiter: nun}}", 'queues.a.limiter: "nun" is not defined'),
        ('{a: {templateOverrides: {labels: {clearml-injector/fraction: "0.5"}}}}', '"0.5" is not allowed'),
    ],
)
def test_mistakes_of_queues_are_found(queues, expected):
    assert expected in "\n".join(problems(q=f"kind: Queues\nqueues: {queues}\n"))


def test_the_digest_follows_the_content_and_nothing_else():
    digest = policy_set(a="kind: Policy\nname: a\n").digest
    assert len(digest) == 12
    assert policy_set(other="# a comment\nname: a\nkind: Policy\n").digest == digest
    assert policy_set(a="kind: Policy\nname: a\nmemory: {reserveMiB: 1}\n").digest != digest
