"""The policy's compute: HAMi-core's per cent for each GPU container."""

import pytest

from tests.webhook.support import decide, pod, policies
from tests.webhook.support.gpu_pods import sharing

LIMIT = "CUDA_DEVICE_SM_LIMIT"


@pytest.mark.parametrize(
    ("text", "fraction", "percent"),
    [
        ("compute: same-as-memory", "0.500", "50"),
        ("compute: same-as-memory", "0.125", "12"),
        ('compute: same-as-memory\nfractions: {"0.001": 1}', "0.001", "1"),
        ("compute: 30", "0.500", "30"),
        ("compute: none", "0.500", None),
        ('compute: 30\nfractions: {"1": 8}', "1", None),
    ],
)
def test_a_container_gets_the_per_cent_of_its_share_or_of_the_policy(text, fraction, percent):
    assert dict(decide(pod(fraction=fraction), policies(text)).env()).get(LIMIT) == percent


def test_each_of_several_containers_gets_its_own():
    found = sharing("train=0.500,eval=0.250", "0.750")
    decided = decide(found, policies("compute: same-as-memory"))
    assert [dict(decided.env(name))[LIMIT] for name in ("train", "eval")] == ["50", "25"]
