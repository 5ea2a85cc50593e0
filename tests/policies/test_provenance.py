"""Every value of a policy that applies, with the place that it comes from."""

from policies.loading.provenance import BUILT_IN, trace
from tests.policies.support import policy_set

OTHER = "kind: Policy\nname: other\nnamespaces: [n]\nslicesPerGpu: 4\nlimiter: none\n"
QUEUES = "kind: Queues\nqueues:\n  q:\n    namespaces: [n]\n    limiter: hami-core\n"


def traced(namespace, queue=None, **files):
    return {".".join(each.path): each for each in trace(policy_set(**files), namespace, queue, None)}


def test_what_nobody_wrote_is_built_in():
    assert {each.origin for key, each in traced("n").items() if key != "name"} == {BUILT_IN}


def test_a_key_names_its_file_and_line():
    found = traced("n", other=OTHER)
    assert (found["slicesPerGpu"].value, found["slicesPerGpu"].origin) == (4, "other.yaml:4")
    assert found["resources.name"].value == "nvidia.com/gpu-{index}"


def test_a_queues_entry_goes_before_the_policy_in_its_namespaces_alone():
    files = {"other": OTHER, "queues": QUEUES}
    assert traced("n", "q", **files)["limiter"].origin.startswith("queues.yaml:5")
    assert traced("n", **files)["limiter"].origin == "other.yaml:5"
    assert traced("elsewhere", "q", **files)["limiter"].origin == BUILT_IN


def test_a_quota_in_mib_names_the_line_of_its_amount():
    text = OTHER + "quotas:\n  namespaces:\n    n:\n      memoryMiB: 81920\n"
    found = traced("n", other=text)["quotas.namespaces.n.memoryMiB"]
    assert (found.value, found.origin) == (81920, "other.yaml:9")


def test_a_quota_names_the_line_of_its_amount():
    text = OTHER + "quotas:\n  namespaces:\n    n:\n      slices: 8\n"
    found = traced("n", other=text)["quotas.namespaces.n.slices"]
    assert (found.value, found.origin) == (8, "other.yaml:9")
