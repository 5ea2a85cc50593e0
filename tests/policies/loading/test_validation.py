"""Keys and values that the model does not know, in the admin's words."""

import pytest

from policies.loading.loader import parse_policies
from policies.model.problems import PolicyError
from tests.policies.support import problems


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
        (
            'a.yaml:4: resources.mode: "per-gpuu" is not one of auto, per-gpu, pooled, dra, mig'
            ' (did you mean "per-gpu"?)'
        ),
        'b.yaml:1: kind: "Policee" is not one of Policy, Limiter, Queues (did you mean "Policy"?)',
        'c.yaml:3: hideGpusFromOthers: "yes" should be a valid boolean',
        "c.yaml:4: memory.reserveMiB: 1.5 must be a whole number",
        'c.yaml:5: env.A: 1 must be quoted: "1"',
        "d.yaml:1: must be a mapping with the key kind",
        "e.yaml:1: kind: key is missing: write kind: Policy, Limiter or Queues",
        "f.yaml:1: is not YAML: did not find expected node content",
    ]


def test_of_many_mistakes_the_first_hundred_are_shown():
    keys = "".join(f"key{number}: 1\n" for number in range(150))
    with pytest.raises(PolicyError) as caught:
        parse_policies({"default.yaml": f"kind: Policy\nname: default\n{keys}".encode()})
    lines = str(caught.value).splitlines()
    assert (len(lines), lines[-1]) == (101, "and 50 more problems")
