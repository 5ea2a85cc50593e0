"""Whatever of a pod can be read: changed in a pod of a known form, it does what it does by the rules."""

import copy
import typing

import msgspec
import pytest

from tests.webhook.field_values import GONE, LABEL, OURS, REQUIRED, VALUES, Also
from tests.webhook.lanes import Recorder, check_by_rules, finish, learn
from tests.webhook.many_policies import POLICIES, WITHOUT_FORMS, Roomy
from tests.webhook.support import as_body, container, fixture_review, pod, review_of
from webhook.envelope import _Header
from webhook.pod import Pod
from webhook.review import Reviewer


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
        securityContext={"privileged": False},
    )
    proxy = container(
        "proxy", env=[{"name": "MODE", "valueFrom": {"fieldRef": {}}}], resources=resources(cpu="1")
    )
    beside = container(
        "beside", restartPolicy="Always", volumeMounts=[{"name": "data", "mountPath": "/certs"}]
    )
    return review_of(
        pod(
            containers=[proxy, train],
            initContainers=[container("setup", securityContext={"privileged": False}), beside],
            volumes=[{"name": "data", "emptyDir": {}}],
            nodeSelector={"nvidia.com/gpu.present": "true"},
            tolerations=[{"key": "spot", "operator": "Exists"}],
            metadata={"annotations": {"sidecar.istio.io/status": "{}"}},
        )
    )


def rare():
    """All that has no form today; a form that would take it in has to notice its parts as well."""
    expression = {"key": "nvidia.com/gpu.memory", "operator": "Exists", "values": []}
    terms = [{"matchExpressions": [expression], "matchFields": [expression]}]
    return review_of(
        pod(
            metadata={"annotations": {OURS + "container": "train"}},
            affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}},
            volumes=[{"name": "logs", "hostPath": {"path": "/var/log"}}],
            overhead={"cpu": "1"},
            resources=resources(cpu="4"),
        )
    )


BASES = {"bare": bare(), "clearml": clearml(), "mesh": mesh(), "rare": rare()}


def kinds(annotation):
    """The structs that a field's type is made of."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return {annotation}
    return {kind for part in typing.get_args(annotation) for kind in kinds(part)}


def fields_of(*roots):
    """Every field of the roots and of whatever structs they hold."""
    seen, found = set(), {}
    waiting = list(roots)
    while waiting:
        kind = waiting.pop()
        if kind not in seen:
            seen.add(kind)
            for field in msgspec.structs.fields(kind):
                found[f"{kind.__name__}.{field.name}"] = field
                waiting += kinds(field.type)
    return found


FIELDS = fields_of(Pod, _Header)


def places(found, kind, path=()):
    """Where in a JSON object of a kind the objects of every kind are: kind and path."""
    yield kind, path
    for field in msgspec.structs.fields(kind):
        inner = found.get(field.encode_name)
        for inner_kind in kinds(field.type):
            if isinstance(inner, dict):
                yield from places(inner, inner_kind, (*path, field.encode_name))
            for at, each in enumerate(inner if isinstance(inner, list) else ()):
                yield from places(each, inner_kind, (*path, field.encode_name, at))


def places_in(review):
    yield from places(review["request"], _Header, ("request",))
    yield from places(review["request"]["object"], Pod, ("request", "object"))


def changed(review, path, field, value):
    review = copy.deepcopy(review)
    parent = review
    for step in path:
        parent = parent[step]
    name = FIELDS[field].encode_name
    if value is GONE:
        parent.pop(name, None)
    elif isinstance(value, Also):
        parent[name] = {**(parent.get(name) or {}), **value.members}
    else:
        parent[name] = value
    return review


def changes(review, field):
    for kind, path in places_in(review):
        if field.partition(".")[0] == kind.__name__:
            for value in VALUES[field]:
                yield changed(review, path, field, value)


def test_every_field_that_can_be_read_has_values_to_try_and_a_place_in_some_base():
    assert VALUES.keys() == FIELDS.keys()
    present = {kind.__name__ for review in BASES.values() for kind, _ in places_in(review)}
    assert {field.partition(".")[0] for field in FIELDS} <= present


@pytest.mark.parametrize("policy", POLICIES)
def test_the_usual_bases_have_a_form_wherever_the_image_does_not_matter(policy):
    for base, review in BASES.items():
        reviewer = Reviewer(lambda: POLICIES[policy], Roomy(), print)
        is_known = base != "rare" and policy not in WITHOUT_FORMS
        assert learn(reviewer, POLICIES[policy], as_body(review)) == is_known


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("base", BASES)
def test_a_pod_that_differs_from_a_known_one_in_any_field_is_decided_as_by_the_rules(base, policy):
    policy_set, known = POLICIES[policy], as_body(BASES[base])
    placer, outcomes = Recorder(Roomy()), []
    reviewer = Reviewer(
        lambda: policy_set, placer, lambda _request, outcome, _seconds: outcomes.append(outcome)
    )
    for field in VALUES:
        for review in changes(BASES[base], field):
            # A flood of forms may have cleared it away.
            learn(reviewer, policy_set, known)
            body = as_body(review)
            answered = finish(reviewer.review(body))
            check_by_rules(body, policy_set, answered, outcomes[-1], placer.take())
