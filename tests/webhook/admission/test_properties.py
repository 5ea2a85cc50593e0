"""Over any pod: the patch gives GPU containers the limiter, hides GPUs from the others, and does no more."""

import copy

from hypothesis import given, settings

from tests.effort import by_turns, examples
from tests.webhook.support import CACHE, LIBRARY, Webhook, pods
from tests.webhook.support.limiter_parts import check_limiter, cleaned, has_gpu
from webhook.admission.annotations import OUTPUTS


@settings(max_examples=examples(by_turns("webhook", usual=75, full=150)))
@given(pods.pods())
def test_the_patch_gives_a_share_and_leaves_all_else_as_it_is(made):
    """`decide` also reviews the pod again, as stored and after another webhook."""
    found, chosen, gpu_inits = made
    before = copy.deepcopy(found)
    decided = Webhook().decide(found)
    assert decided.allowed, decided.message
    stored = decided.stored
    every = every_container(stored)
    assert {each["name"] for each in every if has_gpu(each)} == {chosen, *gpu_inits}
    assert stored["spec"]["initContainers"][0]["image"].startswith("docker.io/projecthami/hamicore")
    check_limiter(stored)
    for each in every[1:]:
        devices = [entry for entry in each.get("env") or () if entry["name"] == "NVIDIA_VISIBLE_DEVICES"]
        assert devices == ([] if has_gpu(each) else [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}])
    for names in ([each["name"] for each in every], [each["name"] for each in stored["spec"]["volumes"]]):
        assert len({*names}) == len(names)
        assert max(map(len, names)) <= 63
    assert without_share(stored) == without_share(before)


def every_container(found):
    return [*(found["spec"].get("initContainers") or ()), *found["spec"]["containers"]]


def without_share(found):
    """A pod without what a share adds or takes out."""
    found = copy.deepcopy(found)
    metadata, spec = found["metadata"], found["spec"]
    annotations = metadata.get("annotations") or {}
    metadata["annotations"] = {name: text for name, text in annotations.items() if name not in OUTPUTS}
    ours = set()
    for each in every_container(found):
        mounts = each.get("volumeMounts") or ()
        ours |= {mount["name"] for mount in mounts if mount["mountPath"] in (LIBRARY, CACHE)}
        each["volumeMounts"] = [mount for mount in mounts if mount["name"] not in ours]
        each["env"] = [entry for entry in each.get("env") or () if entry["name"] in pods.KEPT_VARIABLES]
        for field in ("limits", "requests"):
            amounts = (each.get("resources") or {}).get(field) or {}
            for name in [*amounts]:
                if name.startswith(("nvidia.com/", "clear.ml/")):
                    del amounts[name]
    inits = spec.get("initContainers") or ()
    spec["initContainers"] = [each for each in inits if "hamicore" not in (each.get("image") or "")]
    spec["volumes"] = [each for each in spec.get("volumes") or () if each["name"] not in ours]
    without_binding((spec.get("affinity") or {}).get("nodeAffinity") or {})
    return cleaned(found)


def without_binding(affinity):
    wishes = affinity.get(pods.PREFERRED) or ()
    affinity[pods.PREFERRED] = [wish for wish in wishes if wish["weight"] != 100]
    terms = (affinity.get(pods.REQUIRED) or {}).get("nodeSelectorTerms") or ()
    for term in terms:
        expressions = term.get("matchExpressions") or ()
        term["matchExpressions"] = [each for each in expressions if each["operator"] != "In"]
    if not any(cleaned(term) for term in terms):
        affinity.pop(pods.REQUIRED, None)
