"""What only the rules read is listed nowhere in the cache: a pod that has it has no key."""

import msgspec
import pytest

from tests.webhook.support import Webhook, container, pod, policies, review_of
from tests.webhook.support.field_values import CLAIM, TERM
from webhook.admission import pod as rules
from webhook.admission.pod import Container, PodSpec, Present, Volume
from webhook.admission_request import ObjectMetadata
from webhook.patch_cache import partial_pod
from webhook.patch_cache.partial_pod import (
    Named,
    PartialCapabilities,
    PartialContainer,
    PartialMount,
    PartialSecurityContext,
    PartialSpec,
    PartialVolume,
)
from webhook.patch_cache.table import Table

KINDS = {PodSpec: PartialSpec, Container: PartialContainer, Volume: PartialVolume}
EXAMPLES = {
    "affinity": {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}}
    },
    "hostIPC": True,
    "hostPath": {"path": "/data"},
    "nodeName": "gpu-1",
    "overhead": {"cpu": "1"},
    "resourceClaims": [CLAIM],
    "resources": {"limits": {"cpu": "1"}},
    "schedulingGates": [{"name": "example.com/wait"}],
    "volumeDevices": [{"name": "disk", "devicePath": "/dev/xvda"}],
}
"""By the name in JSON of each field that only the rules read."""
ASSUME = "assume: {gpusPerNode: 1, gpuMemoryMiB: 81920}"


def names(kind):
    return {field.name for field in msgspec.structs.fields(kind)}


def others(kind):
    """The fields of a kind that the cache does not list."""
    listed = names(KINDS[kind]) | {"image"}
    return [field.encode_name for field in msgspec.structs.fields(kind) if field.name not in listed]


def review(kind=None, **fields):
    """A pod with one volume, and more fields in one of its parts."""
    parts = {each: fields if each is kind else {} for each in KINDS}
    volume = {"name": "data", "emptyDir": {}} | parts[Volume]
    return review_of(pod(containers=[container(**parts[Container])], volumes=[volume], **parts[PodSpec]))


def test_a_pod_without_such_fields_has_a_key():
    assert Webhook(policies(ASSUME)).learn(review())


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in KINDS for name in others(kind)])
def test_a_pod_with_a_field_that_only_the_rules_read_has_no_key(kind, name):
    assert not Webhook(policies(ASSUME)).learn(review(kind, **{name: EXAMPLES[name]}))


@pytest.mark.parametrize(
    ("read", "partial", "unread"),
    [
        (rules.ObjectMeta, ObjectMetadata, {"name"}),
        (rules.EnvEntry, Named, {"value", "value_from"}),
        (rules.VolumeMount, PartialMount, set()),
        (rules.SecurityContext, PartialSecurityContext, set()),
        (rules.Capabilities, PartialCapabilities, set()),
    ],
)
def test_what_rules_read_of_a_smaller_part_is_read_for_the_key_too_or_matters_to_no_pod_with_one(
    read, partial, unread
):
    assert names(read) == names(partial) | unread


def test_every_type_of_the_partial_pod_is_compared_with_the_rules_type():
    compared = {*KINDS.values(), Named, PartialMount, PartialSecurityContext, PartialCapabilities}
    defined = {
        each for each in vars(partial_pod).values() if getattr(each, "__module__", "") == partial_pod.__name__
    }
    assert {each for each in defined if isinstance(each, type)} == compared | {
        partial_pod.PartialPod,
        partial_pod.POD_TYPE,
    }


class NewVolume(Volume, rename="camel"):
    """A volume of which a rule reads one more field."""

    image_ref: Present | None = None


def test_a_field_that_a_rule_begins_to_read_is_found_without_an_entry_here():
    table = Table(PartialVolume, NewVolume)
    text = b'[{"name": "a"}, {"name": "b", "imageRef": {}}, {"name": "c", "hostPath": null}]'
    plain, new, null = msgspec.json.decode(text, type=list[table.type])
    assert table.read(plain) == ()
    assert table.read(new) is None
    assert table.read(null) is None
