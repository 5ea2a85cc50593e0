"""Whatever of a pod can be read: changed in a pod with a known key, it does what it does by the rules."""

from itertools import product

import pytest

from tests.effort import by_turns
from tests.webhook.patch_cache.differential import Recorder, check_by_rules, finish, learn
from tests.webhook.support import as_body, container, fixture_review, pod, review_of
from tests.webhook.support.field_values import CLAIM, LABEL, OURS, REQUIRED, VALUES
from tests.webhook.support.many_policies import PLACES, POLICIES, WITHOUT_KEYS, Roomy
from tests.webhook.support.mutations import FIELDS, changed, places_in
from webhook.admission_review import UnreadableReviewError
from webhook.patch_cache.cache import PatchCache
from webhook.review import Reviewer
from webhook.rules import Rules


def resources(name=None, amount=None, **others):
    amounts = others if name is None else {name: amount, **others}
    return {"limits": amounts, "requests": dict(amounts)}


def bare():
    return review_of(pod())


def clearml():
    review = fixture_review("clearml-quarter.create")
    found = review["request"]["object"]
    found["spec"]["containers"][0]["args"] = ["-c", "run"]
    found["metadata"] |= {"annotations": {"last-applied": "x"}, "managedFields": []}
    found["metadata"]["labels"][LABEL] = "0.500"
    found["spec"]["containers"][0]["resources"] = resources("clear.ml/fraction-1", "500m", cpu="2")
    return review


def mesh():
    train = container(
        env=[{"name": "PATH", "value": "/bin"}],
        resources=resources("nvidia.com/gpu", "1", cpu="2", memory="4Gi"),
        volumeMounts=[{"name": "data", "mountPath": "/data"}],
        securityContext={"privileged": False, "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]}},
        terminationMessagePath="/dev/termination-log",
    )
    proxy = container(
        "proxy", env=[{"name": "MODE", "valueFrom": {"fieldRef": {}}}], resources=resources(cpu="1")
    )
    certs = [{"name": "data", "mountPath": "/certs"}]
    amounts = resources(cpu="1", memory="1Gi")
    extra = container("extra", restartPolicy="Always", volumeMounts=certs, resources=amounts)
    return review_of(
        pod(
            containers=[proxy, train],
            initContainers=[container("setup", securityContext={"privileged": False}), extra],
            volumes=[{"name": "data", "emptyDir": {}}],
            nodeSelector={"nvidia.com/gpu.present": "true"},
            tolerations=[{"key": "spot", "operator": "Exists"}],
            metadata={
                "annotations": {"sidecar.istio.io/status": "{}"},
                "generateName": "mesh-",
                "ownerReferences": [{"kind": "ReplicaSet", "uid": "u-1", "controller": True}],
            },
        )
    )


def rare():
    """All that has no key today; a key that would take it in has to notice its parts as well."""
    expression = {"key": "nvidia.com/gpu.memory", "operator": "Exists", "values": []}
    terms = [{"matchExpressions": [expression], "matchFields": [expression]}]
    return review_of(
        pod(
            containers=[
                container(
                    volumeDevices=[{"name": "disk", "devicePath": "/dev/disk"}],
                    resources={"claims": [{"name": "nic"}]},
                )
            ],
            metadata={"annotations": {OURS + "container": "train"}},
            affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}},
            volumes=[{"name": "logs", "hostPath": {"path": "/var/log"}}],
            overhead={"cpu": "1"},
            schedulingGates=[{"name": "example.com/wait"}],
            resources=resources(cpu="4"),
        )
    )


def chosen_by_name():
    """Which container is meant, only its name says."""
    return review_of(pod(containers=[container("side"), container("clearml-id-1")]))


def chosen_by_sidecar():
    """Which container is meant, only what is known of the other one says."""
    return review_of(pod(containers=[container("istio-proxy"), container()]))


def chosen_by_default():
    """Which container is meant, only kubectl's annotation says."""
    said = {"annotations": {"kubectl.kubernetes.io/default-container": "train"}}
    return review_of(pod(containers=[container("side"), container()], metadata=said))


def sidecar_gpu():
    """A native sidecar alone asks for the GPU."""
    asks = container("warm", limits={"nvidia.com/gpu": "1"}, restartPolicy="Always")
    return review_of(pod(initContainers=[asks]))


def init_gpu():
    """Two containers get the share, each a cache of its own name."""
    return review_of(pod(initContainers=[container("warm", limits={"nvidia.com/gpu": "1"})]))


def claiming():
    """A device that is no GPU, of which only the claim's name says so."""
    return review_of(pod(resourceClaims=[CLAIM]))


BASES = {"bare": bare(), "clearml": clearml(), "mesh": mesh()}
KEYLESS = {
    "rare": rare(),
    "chosen by name": chosen_by_name(),
    "chosen by sidecar": chosen_by_sidecar(),
    "chosen by default": chosen_by_default(),
    "init GPU": init_gpu(),
    "sidecar GPU": sidecar_gpu(),
    "claiming": claiming(),
}
EVERY = {"bare": 1} | dict.fromkeys(("clearml", "mesh"), by_turns("webhook", usual=2, full=1))
"""A base with a key is tried under each so-many-th policy: of two that cost most, one under each policy."""
EVERY_KEYLESS = by_turns("webhook", usual=3, full=1)
EVERY_CHANGE = by_turns("webhook", usual=12, full=1)
"""Under each policy a base is changed in each so-many-th way, and under the next in others."""


def changes(review):
    """What can be changed in a review, and to what: path, field, value."""
    places = list(places_in(review))
    for field, values in VALUES.items():
        paths = [path for kind, path in places if field.partition(".")[0] == kind.__name__]
        yield from product(paths, [field], values)


def pairs():
    """Under each policy the bare pod and one more base with a key; each keyless base under some policies."""
    for number, base in enumerate(BASES | KEYLESS):
        every = EVERY.get(base, EVERY_KEYLESS)
        for turn, policy in enumerate(list(POLICIES)[number % every :: every]):
            yield base, policy, turn


def test_every_field_that_can_be_read_has_values_to_try_and_a_place_in_some_base():
    assert VALUES.keys() == FIELDS.keys()
    present = {kind.__name__ for review in (BASES | KEYLESS).values() for kind, _ in places_in(review)}
    assert {field.partition(".")[0] for field in FIELDS} <= present


@pytest.mark.parametrize("policy", POLICIES)
def test_the_usual_bases_have_a_key_wherever_the_image_does_not_matter(policy):
    for base, review in (BASES | KEYLESS).items():
        reviewer = Reviewer(lambda: POLICIES[policy], PatchCache(Rules()), Roomy(), print)
        is_known = base in BASES and policy not in WITHOUT_KEYS
        assert learn(reviewer, POLICIES[policy], as_body(review)) == is_known


@pytest.mark.parametrize(("base", "policy", "turn"), list(pairs()))
def test_a_pod_that_differs_from_a_known_one_in_any_field_is_decided_as_by_the_rules(base, policy, turn):
    review_of_base = (BASES | KEYLESS)[base]
    policy_set, known = POLICIES[policy], as_body(review_of_base)
    placer, outcomes = Recorder(Roomy(*PLACES)), []
    reviewer = Reviewer(
        lambda: policy_set,
        PatchCache(Rules()),
        placer,
        lambda _request, outcome, _seconds: outcomes.append(outcome),
    )
    for path, field, value in list(changes(review_of_base))[turn % EVERY_CHANGE :: EVERY_CHANGE]:
        # A flood of keys may have cleared it away.
        learn(reviewer, policy_set, known)
        body = as_body(changed(review_of_base, path, field, value))
        try:
            answered = finish(reviewer.review(body))
        except UnreadableReviewError:
            # Nobody decides it: no uid or namespace of Kubernetes'.
            assert field.startswith("_Header.")
            continue
        check_by_rules(body, policy_set, answered, outcomes[-1], placer.take())
