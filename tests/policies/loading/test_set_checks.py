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


def test_one_namespace_belongs_to_one_policy():
    text = "kind: Policy\nname: {}\nnamespaces: [team]\n"
    assert problems(a=text.format("a"), b=text.format("b")) == [
        'b.yaml:3: namespaces[0]: "team" belongs to policy a already: keep it in one'
    ]
