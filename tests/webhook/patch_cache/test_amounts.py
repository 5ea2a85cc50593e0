"""Pods that differ only in CPU and memory share an entry, and each is placed by its own amounts."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube.quantity import LARGEST
from tests.effort import by_turns, examples
from tests.webhook.patch_cache.differential import Recorder, check_by_rules, finish
from tests.webhook.support import Webhook, as_body, container, pod, policies, review_of
from tests.webhook.support.many_policies import POLICIES, Roomy
from webhook.patch_cache import cache
from webhook.patch_cache.amounts import MAX_BYTES, without_amounts
from webhook.patch_cache.cache import Entry, PatchCache
from webhook.review import Reviewer
from webhook.rules import Rules

ASSUME = "assume: {gpusPerNode: 4, gpuMemoryMiB: 81920}"
KEY = ("policy", "", "0.500", None, False, (), (), ((False,),))


@pytest.fixture
def rendered(monkeypatch):
    """The containers of the pods that the cache decided."""
    names, render = [], Entry.render

    def noting(entry, found, *others):
        names.append(found.spec.containers[0].name)
        return render(entry, found, *others)

    monkeypatch.setattr(Entry, "render", noting)
    return names


def resources(cpu, memory, **others):
    return {"limits": {"cpu": cpu, "memory": memory, **others}, "requests": {"cpu": cpu, "memory": memory}}


def sized(cpu, memory, **fields):
    return pod(containers=[container(resources=resources(cpu, memory), **fields)])


def asked(webhook):
    """CPU and memory of the last placement request."""
    share = webhook.placer.asked[-1][0].share
    return share.cpu_milli, share.memory_bytes


def decided(webhook, found):
    """Decide a pod whose key nobody learns before; return what was asked for it too."""
    webhook.placer.take()
    request = webhook.reviewer.review(as_body(review_of(found)))
    reply = json.loads(finish(request))
    return reply["response"]["allowed"], asked(webhook)


def test_a_pod_that_differs_only_in_cpu_and_memory_is_decided_by_the_cache(rendered):
    webhook = Webhook(policies(ASSUME))
    webhook.learn(review_of(sized("1", "1Gi")))
    for number in range(5):
        assert webhook.send(review_of(sized(f"{number}", f"{number}Mi")), learns=False).code == "injected"
    assert rendered == ["train"] * 5


def test_each_pod_is_placed_by_its_own_amounts():
    webhook = Webhook(policies(ASSUME))
    webhook.learn(review_of(sized("1", "1Gi")))
    assert decided(webhook, sized("250m", "1500m")) == (True, (250, 2))
    assert decided(webhook, sized("1.5", "2Gi")) == (True, (1500, 2**31))


def test_init_containers_and_sidecars_count_as_for_the_scheduler():
    webhook = Webhook(policies(ASSUME))

    def started(first, extra, then):
        inits = [
            container("extra", resources=resources(extra, "1Gi"), restartPolicy="Always"),
            container("first", resources=resources(first, "1Gi")),
        ]
        return pod(containers=[container(resources=resources(then, "1Gi"))], initContainers=inits)

    webhook.learn(review_of(started("1", "1", "1")))
    assert decided(webhook, started("8", "1", "2")) == (True, (9000, 2**31))
    assert decided(webhook, started("1", "1", "2")) == (True, (3000, 2**31))


def test_the_limiter_gets_the_amounts_of_its_own_pod():
    webhook = Webhook(policies(ASSUME))
    webhook.learn(review_of(sized("1", "1Gi")))
    for cpu, memory in (("2", "3Gi"), ("2500m", "1e9"), ("1", "1Gi")):
        found = webhook.send(review_of(sized(cpu, memory)), learns=False)
        assert found.spec["initContainers"][0]["resources"] == resources(cpu, memory)


@pytest.mark.parametrize(
    "found",
    [
        sized(1, "1Gi"),
        pod(containers=[container(resources={"limits": {"cpu": "1"}})]),
        pod(containers=[container(resources=resources("1", "1Gi", **{"nvidia.com/gpu": "1"}))]),
        sized("1", "1Gi", env=[{"name": "A"}]),
    ],
)
def test_what_else_is_said_of_resources_stays_in_the_key(found):
    webhook = Webhook(policies(ASSUME))
    webhook.learn(review_of(sized("1", "1Gi")))
    webhook.send(review_of(found), learns=False)
    assert len(webhook.reviewer.dispatcher.decider._entries) == 1


@pytest.mark.parametrize("amount", ["a lot", "", "1_0", "1e99", "\u0663", str(LARGEST + 1), "1 ", "--1"])
def test_a_pod_of_known_form_with_an_amount_that_is_no_quantity_is_denied(amount):
    webhook = Webhook(policies(ASSUME))
    webhook.learn(review_of(sized("1", "1Gi")))
    for found in (sized(amount, "1Gi"), sized("1", amount)):
        assert webhook.send(review_of(found), learns=False).code == "unreadable-object"


def test_of_an_amount_that_comes_twice_the_last_counts():
    webhook = Webhook(policies(ASSUME))
    body = as_body(review_of(sized("7", "1Gi"))).replace(b'"cpu": "7"', b'"cpu": "7", "cpu": "3"')
    assert webhook.learn(body)
    finish(webhook.reviewer.review(body))
    assert asked(webhook) == (3000, 2**30)


def test_only_so_many_keys_with_amounts_are_kept(monkeypatch):
    monkeypatch.setattr(cache, "MAX_SIZED", 10)
    webhook = Webhook(policies(ASSUME))
    patch_cache, sizes = webhook.reviewer.dispatcher.decider, []
    for number in range(50):
        webhook.learn(review_of(sized(f"{number}", "1Gi")))
        sizes.append(len(patch_cache._sized))
    assert max(sizes) == 10
    assert len(patch_cache._entries) == 1


def test_long_resources_give_no_key():
    assert without_amounts((*KEY, b" " * (MAX_BYTES + 1))) is None


@pytest.mark.parametrize("name", [r"c\u0070u", r"a\"cpu", "cpu\ue000", r"\"cpu\":\"9\""])
def test_a_name_that_only_looks_like_an_amounts_gives_no_key(name):
    webhook = Webhook(policies(ASSUME))
    body = as_body(review_of(sized("7", "1Gi"))).replace(b'"cpu"', f'"{name}"'.encode())
    assert not webhook.learn(body)
    webhook.send(body)


valid = st.one_of(
    st.integers(0, 5000).map(str),
    st.tuples(
        st.integers(0, 5000), st.sampled_from(["n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "Ti", "e3"])
    ).map(lambda drawn: f"{drawn[0]}{drawn[1]}"),
    st.tuples(st.integers(-9, 9), st.integers(0, 999), st.sampled_from(["", "m", "Gi", "E-2"])).map(
        lambda drawn: f"{drawn[0]}.{drawn[1]}{drawn[2]}"
    ),
)
odd = st.one_of(
    st.integers(-3, 3),
    st.sampled_from(
        ["", "a lot", "1_0", "\u0663", "1e99", "%b", "\ue000", 'q"', "a\\", "\n", None, 1.5, "9Ei"]
    ),
    st.text(max_size=3),
)
AMOUNTS = [("cpu",), ("memory",), ("cpu", "memory"), ("cpu", "memory", "ephemeral-storage"), ()]
FORMS = [
    {},
    *({"requests": each} for each in AMOUNTS),
    *({"limits": each, "requests": each} for each in AMOUNTS),
]
"""The amounts that a container has, by field."""
PARTS = ["", "", "", "", "overhead", "resources", "ephemeralContainers"]
"""What else of a pod says how much it takes, or could."""


def of_form(form, quantities):
    """Resources with the amounts of a form."""
    return st.fixed_dictionaries(
        {field: st.fixed_dictionaries(dict.fromkeys(names, quantities)) for field, names in form.items()}
    )


@st.composite
def sequences(draw):
    """Pods of one form with other amounts in each: mostly quantities, in one of them whatever can be sent."""
    regular = draw(st.lists(st.sampled_from(FORMS), min_size=1, max_size=2))
    inits = draw(
        st.lists(st.tuples(st.sampled_from(FORMS), st.sampled_from(["Always", "OnFailure"])), max_size=3)
    )
    part = draw(st.sampled_from(PARTS))

    def one(quantities):
        def sized(name, form, **fields):
            return container(name, resources=draw(of_form(form, quantities)), **fields)

        first = [sized(f"i-{at}", form, restartPolicy=policy) for at, (form, policy) in enumerate(inits)]
        then = [sized(f"c-{at}", form) for at, form in enumerate(regular)]
        then[0]["resources"].setdefault("limits", {})["nvidia.com/gpu"] = "1"
        more = {
            "overhead": {"overhead": {"cpu": draw(quantities)}},
            "resources": {"resources": {"requests": {"cpu": draw(quantities)}}},
            "ephemeralContainers": {"ephemeralContainers": [sized("debug", FORMS[-2])]},
        }.get(part, {})
        return pod(containers=then, initContainers=first, **more)

    sent = [one(valid) for _ in range(4)]
    return [*sent, one(st.one_of(valid, odd)), draw(st.sampled_from(sent))]


@settings(max_examples=examples(by_turns("webhook", usual=60, full=300)))
@given(sequences(), st.sampled_from(list(POLICIES.values())))
def test_pods_that_differ_in_amounts_are_decided_as_by_the_rules(pods, policy_set):
    placer, outcomes = Recorder(Roomy()), []
    reviewer = Reviewer(
        lambda: policy_set,
        PatchCache(Rules()),
        placer,
        lambda _request, made, _seconds: outcomes.append(made),
    )
    for found in pods:
        body = as_body(review_of(found))
        answered = finish(reviewer.review(body))
        check_by_rules(body, policy_set, answered, outcomes[-1], placer.take())
