"""Keys and values that the model does not know, in the admin's words."""

import pytest

from policies.loading.loader import parse_policies
from policies.model.problems import PolicyError
from policies.model.schema import KINDS
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
            'a.yaml:4: resources.mode: "per-gpuu" must be one of auto, per-gpu, pooled, dra, mig'
            ' (did you mean "per-gpu"?)'
        ),
        'b.yaml:1: kind: "Policee" is not one of Policy, Limiter, Queues (did you mean "Policy"?)',
        'c.yaml:3: hideGpusFromOthers: "yes" must be true or false',
        "c.yaml:4: memory.reserveMiB: 1.5 must be a whole number",
        'c.yaml:5: env.A: 1 must be quoted: "1"',
        "d.yaml:1: must be a mapping with the key kind",
        "e.yaml:1: kind: key is missing: write kind: Policy, Limiter or Queues",
        "f.yaml:1: is not YAML: did not find expected node content",
    ]


POLICY, QUEUES, LIMITER = "kind: Policy\nname: q\n", "kind: Queues\nqueues: ", "kind: Limiter\nname: q\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{POLICY}memory:", "memory: must be a mapping"),
        (f"{POLICY}memory: 5", "memory: 5 must be a mapping"),
        (f"{POLICY}memory: {{decimal: 1}}", "memory.decimal: 1 must be true or false"),
        (
            f"{POLICY}memory: {{decimal: 'true'}}",
            'memory.decimal: "true" must be true or false, without quotes',
        ),
        (f"{POLICY}memory: {{min: [5]}}", "memory.min: must be text"),
        (f"{POLICY}memory: {{reserveMiB: -1}}", "memory.reserveMiB: -1 must be at least 0"),
        (f"{POLICY}maxGpus: 99", "maxGpus: 99 must be at most 16"),
        (f"{POLICY}maxGpus: all", 'maxGpus: "all" must be a whole number'),
        (f"{POLICY}maxGpus: '5'", 'maxGpus: "5" must be a whole number, without quotes'),
        (f"{POLICY}slicesPerGpu: 1.5", "slicesPerGpu: 1.5 must be one of 2, 4, 8, 16"),
        (f"{POLICY}slicesPerGpu: 6", "slicesPerGpu: 6 must be one of 2, 4, 8, 16"),
        (f"{POLICY}slicesPerGpu: '8'", 'slicesPerGpu: "8" must be one of 2, 4, 8, 16, without quotes'),
        (f"{POLICY}place: spred", 'place: "spred" must be one of pack, spread (did you mean "spread"?)'),
        (f"{POLICY}fractions: 5", "fractions: 5 must be a mapping"),
        (f"{POLICY}namespaces: a", 'namespaces: "a" must be a list'),
        (f"{POLICY}resources: {{name: ''}}", 'resources.name: "" must not be empty'),
        (f"{POLICY}resources: {{prefer: [mig, dra, mig]}}", "resources.prefer: must list at most 2"),
        (
            f"{POLICY}compute: 5.0",
            "compute: 5.0 must be one of none, same-as-memory, or a whole number from 1 to 99",
        ),
        (f"{QUEUES}{{a: }}", "queues.a: must be a mapping"),
        (f"{QUEUES}{{a: {{namespaces: []}}}}", "queues.a.namespaces: must list at least 1"),
        (
            f"{LIMITER}image: {{pattern: {'a' * 501}}}",
            f'image.pattern: "{"a" * 60}..." must have at most 500 characters',
        ),
        (
            f"{LIMITER}cache: {{mountPath: /a, sizeLimit: 8M}}",
            'cache.sizeLimit: "8M" must be a whole number of Ki, Mi or Gi such as 8Mi',
        ),
        (
            f"{POLICY}quotas: {{namespaces: {{a: {{memory: 5}}}}}}",
            'quotas.namespaces.a.memory: unknown key (did you mean "memoryMiB"?)',
        ),
        (
            f"{POLICY}container: {{sidecars: [{{name: b}}, {{nam: a}}]}}",
            'sidecars[1].nam: unknown key (did you mean "name"?)',
        ),
        (
            f"{QUEUES}{{quota: {{slices: 1}}}}",
            "queues.quota.slices: unknown key: it belongs under queues.NAME.quota",
        ),
        (
            f"{QUEUES}{{a: {{basePodTemplate: {{}}}}}}",
            "basePodTemplate: unknown key: it belongs at the top level",
        ),
        (f"{POLICY}container: {{name: a}}", 'container.name: unknown key (did you mean "names"?)'),
        (f"{POLICY}mode: dra", "mode: unknown key: it belongs under resources"),
        (f"{POLICY}slices: 1", "slices: unknown key: it belongs under quotas.namespaces.NAME"),
        (f"{POLICY}xyz: 1", "xyz: unknown key"),
    ],
)
def test_a_rule_is_in_the_words_of_yaml(text, expected):
    [found] = problems(q=text)
    assert found.endswith(expected)


def schemas_below(node):
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [node, *(below for child in children for below in schemas_below(child))]


def test_each_type_and_bound_of_the_models_has_a_rule_above():
    words = set()
    for kind in KINDS.values():
        kind.model_rebuild(force=True)
        for each in schemas_below(kind.__pydantic_core_schema__):
            if isinstance(each, dict) and isinstance(each.get("type"), str):
                words |= {each["type"], *(each.keys() & {"ge", "gt", "le", "lt", "multiple_of", "pattern"})}
    of_values = {"any", "bool", "dict", "int", "list", "literal", "model", "str", "ge", "le"}
    of_code = {"default", "function-after", "function-before", "no-info", "nullable", "union"}
    assert words == of_values | of_code | {"definition-ref", "definitions", "model-field", "model-fields"}


def test_of_many_mistakes_the_first_hundred_are_shown():
    keys = "".join(f"key{number}: 1\n" for number in range(150))
    with pytest.raises(PolicyError) as caught:
        parse_policies({"default.yaml": f"kind: Policy\nname: default\n{keys}".encode()})
    lines = str(caught.value).splitlines()
    assert (len(lines), lines[-1]) == (101, "and 50 more problems")
