"""Every value of a policy that applies, with the place that it comes from."""

import pytest

from policies.loading.provenance import BUILT_IN, trace
from tests.policies.support import policy_set

OTHER = "kind: Policy\nname: other\nnamespaces: [n]\nslicesPerGpu: 4\nlimiter: none\n"


def traced(namespace, queue=None, **files):
    return {".".join(each.path): each for each in trace(policy_set(**files), namespace, queue, None)}


def test_what_nobody_wrote_is_built_in():
    assert {each.origin for key, each in traced("n").items() if key != "name"} == {BUILT_IN}


def test_a_key_names_its_file_and_line():
    found = traced("n", other=OTHER + "quotas:\n  namespaces:\n    n:\n      slices: 8\n")
    quota = found["quotas.namespaces.n.slices"]
    assert (quota.value, quota.origin) == (8, "other.yaml:9")
    assert (found["slicesPerGpu"].value, found["slicesPerGpu"].origin) == (4, "other.yaml:4")
    assert found["resources.name"].value == "nvidia.com/gpu-{index}"


PREFERRING = (
    "kind: Policy\nname: both\nnamespaces: [n]\nresources:\n  prefer: [mig, per-gpu]\nsameModel: true\n"
)


def test_a_queues_order_of_slices_and_instances_is_what_is_shown():
    queues = (
        "kind: Queues\nqueues:\n  q:\n    namespaces: [n]\n    prefer: [per-gpu, mig]\n    sameModel: false\n"
    )
    found = traced("n", "q", both=PREFERRING, queues=queues)
    assert found["resources.prefer"].value == ["per-gpu", "mig"]
    assert found["resources.prefer"].origin == "queues.yaml:5, queue q"
    assert (found["sameModel"].value, found["sameModel"].origin) == (False, "queues.yaml:6, queue q")
    of_policy = traced("n", both=PREFERRING, queues=queues)["resources.prefer"]
    assert (of_policy.value, of_policy.origin) == (["mig", "per-gpu"], "both.yaml:5")


@pytest.mark.parametrize("queue", [None, "q"])
def test_a_limiter_that_instances_do_not_get_is_not_shown(queue):
    instances = "kind: Policy\nname: parts\nnamespaces: [n]\nresources: {mode: mig}\nlimiter: hami-core\n"
    queues = "kind: Queues\nqueues:\n  q:\n    namespaces: [n]\n    place: spread\n"
    found = traced("n", queue, parts=instances, queues=queues)["limiter"]
    assert (found.value, found.origin) == ("none", "mode mig")
