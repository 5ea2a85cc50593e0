"""The field that a user must shorten is named, by a decoder that reads nothing else."""

import pytest

from tests.webhook.support import as_body, container, pod, review_of
from webhook.admission.longest_field import longest_field

LONG = "x" * 1000


@pytest.mark.parametrize(
    ("found", "field"),
    [
        (pod(containers=[container(), container("b", args=[LONG])]), "spec.containers[1].args"),
        (pod(initContainers=[container(env=[{"name": "A", "value": LONG}])]), "spec.initContainers[0].env"),
        (pod(volumes=[{"name": LONG}]), "spec.volumes"),
        (pod(metadata={"annotations": {"a": LONG}}), "metadata.annotations"),
        ({"metadata": {}, "spec": {"template": {"spec": {"containers": [LONG]}}}}, "spec.template"),
        (pod(containers=[{"name": "a", "args": LONG}, *[{}] * 10_000]), "spec.containers"),
        (pod(containers=[LONG]), "spec.containers[0]"),
        ({"metadata": [LONG]}, "metadata"),
        (None, "metadata"),
    ],
)
def test_the_longest_field_is_named(found, field):
    path, size = longest_field(as_body(review_of(found)))
    assert (path, size > 1000 or found is None) == (field, True)


def test_a_review_without_an_object_has_no_longest_field():
    assert longest_field(b'{"request": {"uid": "u"}}')[0] == "metadata"
