"""Over any pod: our patch gives exactly the described pod, and a second call gives only what is missing."""

import copy
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import by_turns, examples
from tests.webhook.support import Webhook, container, default_policies, named, pods
from tests.webhook.support import pod_descriptions as describer

MARKER = default_policies().resolve("team", None, None).marker
MANY = settings(max_examples=examples(by_turns("webhook", usual=75, full=150)))


def injected(webhook, found):
    decided = webhook.decide(found)
    assert decided.allowed, decided.message
    return decided


@MANY
@given(pods.pods())
def test_the_patch_gives_exactly_the_described_pod(made):
    found, chosen, gpu_inits = made
    before = copy.deepcopy(found)
    decided = injected(Webhook(), found)
    assert decided.stored == describer.describe(
        before,
        chosen=chosen,
        gpu_inits=gpu_inits,
        placement=decided.outcome.injection.placement,
        marker=MARKER,
    )


def added_sidecar(injected_pod, draw):
    spec = injected_pod["spec"]
    names = {one["name"] for one in [*spec["containers"], *spec["initContainers"]]}
    name = draw(st.sampled_from([name for name in ["proxy", "mesh"] if name not in names]))
    front = draw(st.booleans())
    spec["containers"].insert(0 if front else len(spec["containers"]), container(name))


def added_init_sidecar(injected_pod, draw):
    spec = injected_pod["spec"]
    name = "istio-proxy"
    sidecar = container(
        name, restartPolicy="Always", env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    )
    spec["initContainers"].insert(draw(st.integers(0, len(spec["initContainers"]))), sidecar)


def limit_range(injected_pod, draw):
    for one in injected_pod["spec"]["initContainers"]:
        resources = one.get("resources") or {}
        one["resources"] = {**resources, "limits": {"cpu": "1", **(resources.get("limits") or {})}}
    draw(st.none())


def appended_env(injected_pod, draw):
    spec = injected_pod["spec"]
    # With a variable of others the limiter is ours no longer, and is written again: a matter of other tests.
    others = [each for each in spec["initContainers"] if "hamicore" not in (each.get("image") or "")]
    one = draw(st.sampled_from([*spec["containers"], *others]))
    entry = {"name": draw(st.sampled_from(pods.VARIABLES)), "value": draw(st.sampled_from(pods.VALUES))}
    one["env"] = [*(one.get("env") or []), entry]


def added_term(injected_pod, draw):
    required = injected_pod["spec"]["affinity"]["nodeAffinity"][pods.REQUIRED]
    required["nodeSelectorTerms"].append(draw(st.one_of(pods.filled_term, st.just({}))))


def defaults(injected_pod, draw):
    ours = injected_pod["spec"]["initContainers"][0]
    ours |= {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
    injected_pod["metadata"]["creationTimestamp"] = None
    draw(st.none())


CHANGES = [added_sidecar, added_init_sidecar, limit_range, appended_env, added_term, defaults]


@MANY
@given(pods.pods(), st.data())
def test_after_another_webhook_only_what_is_missing_is_patched(made, data):
    webhook = Webhook()
    changed = injected(webhook, made[0]).stored
    changes = data.draw(st.lists(st.sampled_from(CHANGES), min_size=1, max_size=3, unique=True))
    for change in changes:
        change(changed, data.draw)
    again = injected(webhook, copy.deepcopy(changed))
    touched = {operation["path"].split("/")[2] for operation in again.patch}
    assert touched <= {"containers", "initContainers", "affinity"}
    assert all("/env" in each["path"] or "nodeSelectorTerms" in each["path"] for each in again.patch)
    if set(changes) <= {limit_range, defaults}:
        assert again.patch == []
    stored = again.stored
    assert stored["metadata"] == changed["metadata"]
    assert stored["spec"].get("volumes") == changed["spec"].get("volumes")
    for one in [*stored["spec"]["containers"], *stored["spec"]["initContainers"]]:
        check_env(one, stored)
    assert webhook.decide(stored).patch == []


def check_env(one, stored):
    """Every copy of a reserved name is ours; a container without a share sees no GPU."""
    env = one.get("env") or []
    counted = Counter(entry["name"] for entry in env)
    has_share = any(
        name.startswith("nvidia.com/gpu-") for name in (one.get("resources") or {}).get("limits") or {}
    )
    if not has_share:
        (hidden,) = [entry for entry in env if entry["name"] == "NVIDIA_VISIBLE_DEVICES"]
        assert hidden["value"] == "void"
        return
    mib = stored["metadata"]["annotations"]["clearml-injector/memory-mib"]
    assert "NVIDIA_VISIBLE_DEVICES" not in counted
    assert "CUDA_MPS_PIPE_DIRECTORY" not in counted
    assert named(env, "CUDA_DEVICE_MEMORY_LIMIT_0")["value"] == f"{mib}m"
    assert named(env, "LD_PRELOAD")["value"].split(":")[0] == describer.LIBRARY
