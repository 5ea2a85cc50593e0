"""Rules across the files of a set."""

from tests.policies.support import problems


def test_two_name_patterns_for_gpus_are_refused():
    found = problems(a="kind: Policy\nname: a\nresources: {name: 'example.com/gpu-{index}'}\n")
    assert found == [
        (
            'default.yaml:1: resources.name: "nvidia.com/gpu-{index}" is not the'
            ' "example.com/gpu-{index}" of policy a:'
            " use one name"
        )
    ]


def test_a_queue_evicts_idle_pods_only_if_something_says_when_a_share_is_idle():
    timed = "kind: Policy\nname: timed\nidleAfter: 1h\n"
    queues = "kind: Queues\nqueues: {{q: {{reclaimIdle: evict, {}}}}}\n"
    [found] = problems(timed=timed, queues=queues.format("policy: default"))
    assert found.endswith("queues.q.reclaimIdle: evict needs idleAfter, here or in policy default")
    for more in ("policy: timed", "idleAfter: 2h"):
        assert problems(timed=timed, queues=queues.format(more)) == []


def test_two_policies_of_one_name_name_each_other():
    assert problems(other="kind: Policy\nname: default\n") == [
        'other.yaml:1: "default" is used at default.yaml:2: names must be unique'
    ]


def test_an_empty_file_is_a_mistake_because_a_torn_write_looks_like_it():
    assert problems(torn="") == ["torn.yaml: is empty: delete it, or write a policy into it"]


def test_one_namespace_belongs_to_one_policy():
    text = "kind: Policy\nname: {}\nnamespaces: [team]\n"
    assert problems(a=text.format("a"), b=text.format("b")) == [
        'b.yaml:3: namespaces[0]: "team" belongs to policy a already: keep it in one'
    ]
