"""Forty mistakes in policies and queues: refused by Helm where it can know, else by the product.

What neither refuses would be served; what only the product refuses keeps a starting webhook unready.
"""

import json
import subprocess

import pytest

from policies.loading.loader import parse_policies
from policies.model.problems import PolicyError
from testbed.chart import CHART, objects_of

HALF = {"templateOverrides": {"labels": {"clearml-injector/fraction": "0.500"}}}


def labelled(text):
    return {"templateOverrides": {"labels": {"clearml-injector/fraction": text}}}


def limited(label, **limits):
    template = {"labels": {"clearml-injector/fraction": label}, "resources": {"limits": limits}}
    return {"templateOverrides": template}


def default(**keys):
    return {"policies": {"default": keys}}


def two(**keys):
    return {"policies": {"default": {}, "other": keys}}


TOLD_BY_HELM = {
    "label 0.5": ({"queues": {"q": labelled("0.5")}}, 'fraction: "0.5" is not allowed'),
    "label half": ({"queues": {"q": labelled("half")}}, '"half" is not allowed'),
    "label without quotes": ({"queues": {"q": labelled(0.5)}}, "string"),
    "label that the named policy lacks": (
        {**default(fractions={"0.250": 2}), "queues": {"q": {**HALF, "policy": "default"}}},
        "use one of 0.250",
    ),
    "label that the queue's own table lacks": (
        {"queues": {"q": {**HALF, "fractions": {"0.250": 2}}}},
        "use one of 0.250",
    ),
    "label of the base template": (
        {"basePodTemplate": {"labels": {"clearml-injector/fraction": "0.5"}}},
        "0.5",
    ),
    "unknown policy": ({"queues": {"q": {"policy": "gold"}}}, '"gold" is not defined: use one of default'),
    "unknown limiter of a queue": ({"queues": {"q": {"limiter": "hami"}}}, '"hami" is not defined'),
    "unknown limiter of a policy": (default(limiter="hami"), '"hami" is not defined'),
    "three slices are no half": (default(fractions={"0.500": 3}), "3 slices are not what the text says"),
    "slices of another size": (default(slicesPerGpu=16, fractions={"0.500": 4}), "of 16 slices it is 8"),
    "a fraction rounded down": (default(fractions={"0.2": 1}), "of 8 slices it is 2"),
    "a part of a second GPU": (default(fractions={"1.2": 10}), "is neither a part of one GPU nor whole GPUs"),
    "slices of a queue": ({"queues": {"q": {"fractions": {"0.250": 4}}}}, "queues.q.fractions"),
    "a percentage": (default(fractions={"50%": 4}), "is not a plain decimal number"),
    "a fraction as 1/2": (default(fractions={"1/2": 4}), "is not a plain decimal number"),
    "an exponent": (default(fractions={"5e-1": 4}), "is not a plain decimal number"),
    "slices as text": (default(fractions={"0.500": "4"}), "integer"),
    "no slices": (default(fractions={"0.500": 0}), "minimum"),
    "a label under an empty table": ({**default(fractions={}), "queues": {"q": HALF}}, '"0.500" is not'),
    "two queues of one label": (
        {"queues": {"gpu_half": HALF, "gpu-half": HALF}},
        'both become the label "gpu-half"',
    ),
    "two queues of one label in other letters": (
        {"queues": {"Gpu Half": HALF, "gpu.half": HALF}},
        "gpu-half",
    ),
    "a namespace in two policies": (
        {"policies": {"default": {"namespaces": ["team"]}, "other": {"namespaces": ["team"]}}},
        '"team" belongs to policy "default" already',
    ),
    "too many protected places with the agent's": (
        {**default(protectedHostPaths=[f"/opt/{n}" for n in range(46)]), "agent": {"enabled": True}},
        "policies.default.protectedHostPaths: 51 with those of agent, of at most 50: leave some out",
    ),
    "a namespace twice": (default(namespaces=["team", "team"]), '"team" belongs to policy "default" already'),
    "no default policy": ({"policies": {"default": None, "other": {}}}, "default"),
    "an unknown key of a policy": (default(limitr="none"), "limitr"),
    "an unknown key of a queue": ({"queues": {"q": {"limitr": "none"}}}, "limitr"),
    "slices per GPU": (default(slicesPerGpu=7), "slicesPerGpu"),
    "an unknown mode": (default(resources={"mode": "shared"}), "mode"),
    "two names of one mode": (two(resources={"name": "example.com/gpu-{index}"}), "use one name"),
    "a queue as a list": ({"queues": [HALF]}, "object"),
    "maxPods as text": ({"queues": {"q": {"queueSettings": {"maxPods": "10"}}}}, "maxPods"),
    "a negative reserve": (default(memory={"reserveMiB": -1}), "reserveMiB"),
    "a limiter without a definition's keys": ({"limiters": {"own": {"librry": {}}}}, "librry"),
    "a preset that is extended in what it limits": (
        {"limiters": {"hami-core": {"extends": "hami-core", "env": {"A": "b"}}}},
        "env",
    ),
    "a preset that cannot be extended": ({"limiters": {"own": {"extends": "none"}}}, "hami-core"),
    "an init container without an image": (
        {"limiters": {"own": {"initContainer": {"command": ["c"]}}}},
        "image",
    ),
}
TOLD_BY_THE_PRODUCT = {
    "a queue that relaxes for all": ({"queues": {"q": {"limiter": "none"}}}, "name the namespaces"),
    "limits that disagree with the label": (
        {"queues": {"q": limited("0.500", **{"clear.ml/fraction-1": "0.25"})}},
        "disagrees with label",
    ),
    "one GPU's name in a template": (
        {"queues": {"q": limited("0.500", **{"nvidia.com/gpu-0": 4})}},
        "exclude",
    ),
    "an id twice": ({"queues": {"a": {"id": "1"}, "b": {"id": "1"}}}, "is the id of queue"),
    "a name without its index": (default(resources={"name": "nvidia.com/gpu"}), "must end in {index}"),
    "an index where there is none": (default(resources={"mode": "pooled"}, env={"A": "{index}"}), "{index}"),
    "an unknown placeholder": (default(env={"A": "{memory}"}), "{memory}"),
    "an image without a tag": (
        {"limiters": {"own": {"initContainer": {"image": "a/b", "command": ["c"]}}}},
        "pinned",
    ),
    "a namespace in capitals": (default(namespaces=["Team"]), "DNS label"),
}


@pytest.fixture(scope="module")
def template(built, tmp_path_factory):
    """Render the chart with values; gives exit code, output and what Helm says."""
    folder = tmp_path_factory.mktemp("helm")

    def run(values):
        file = folder / "values.yaml"
        file.write_text(json.dumps({"image": {"repository": "registry.example.com/a"}, **values}))
        return subprocess.run(
            [built / "helm", "template", "r", CHART, "--values", file],
            env={"HOME": str(folder)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


def policy_files(rendered):
    objects = objects_of(rendered)
    (config_map,) = [found for found in objects if found["metadata"]["name"].endswith("-policies")]
    return {name: text.encode() for name, text in config_map["data"].items()}


def test_there_are_forty_of_them():
    assert len(TOLD_BY_HELM) + len(TOLD_BY_THE_PRODUCT) >= 40


@pytest.mark.parametrize("name", TOLD_BY_HELM)
def test_helm_refuses(template, name):
    values, said = TOLD_BY_HELM[name]
    ended = template(values)
    assert ended.returncode != 0, ended.stdout
    assert said in ended.stderr


@pytest.mark.parametrize("name", TOLD_BY_THE_PRODUCT)
def test_the_product_refuses_what_helm_cannot_know(template, name):
    values, said = TOLD_BY_THE_PRODUCT[name]
    ended = template(values)
    if ended.returncode == 0:
        with pytest.raises(PolicyError) as refused:
            parse_policies(policy_files(ended.stdout))
        assert said in str(refused.value)
    else:
        assert said in ended.stderr


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"queues": {"gpu_half": HALF, "gpu_quarter": labelled("0.250")}},
        {
            "policies": {"default": {"fractions": {"0.125": 1, "1.000": 8, "2": 16}}},
            "queues": {"q": labelled("2")},
        },
        {
            "policies": {"default": {}, "small": {"slicesPerGpu": 4, "namespaces": ["small"]}},
            "queues": {"q": {"namespaces": ["small"], "fractions": {"0.250": 1}}},
        },
        {"queues": {"q": {**HALF, "namespaces": ["team"], "limiter": "none"}}},
        two(namespaces=["shut"], fractions={}),
        default(quotas={"namespaces": {"shut": {"slices": 0}}}),
    ],
)
def test_what_is_right_renders_and_is_taken(template, values):
    ended = template(values)
    assert ended.returncode == 0, ended.stderr
    parse_policies(policy_files(ended.stdout))
