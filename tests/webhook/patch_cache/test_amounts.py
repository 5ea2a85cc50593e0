"""Pods that differ only in CPU and memory share an entry, and each is placed by its own amounts."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube.quantity import LARGEST
from tests.effort import examples
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


def test_sized_entries_keep_to_the_bytes_of_the_cache_under_a_flood(monkeypatch):
    monkeypatch.setattr(cache, "MAX_BYTES", 50_000)
    webhook = Webhook(policies(ASSUME))
    patch_cache = webhook.reviewer.dispatcher.decider
    for number in range(100):
        found = review_of(sized(f"{number}", "1Gi"))
        for _ in range(3):
            webhook.learn(found)
        assert patch_cache._bytes <= 50_000
        assert len(patch_cache._sized) <= 50
    assert patch_cache._sized


def test_amounts_that_are_seen_once_are_only_counted():
    webhook = Webhook(policies(ASSUME))
    patch_cache = webhook.reviewer.dispatcher.decider
    for number in range(cache.MAX_SEEN_ONCE + 10):
        patch_cache._sized_once.again((number,))
        assert len(patch_cache._sized_once) <= cache.MAX_SEEN_ONCE


@pytest.mark.parametrize(
    ("text", "texts", "amounts"),
    [
        (b"", (b"",), []),
        (b'{"limits":{"cpu":"1"}}', (b'{"limits":{', b"cpu", b"}}"), [b"1"]),
        (b'{"limits":{"memory" :\n "1"}}', (b'{"limits":{', b"memory", b"}}"), [b"1"]),
        (b'{"limits":{"cpu":1}}', (b'{"limits":{"cpu":1}}',), []),
        (b'{"limits":{"cpus":"1","x":"cpu"}}', (b'{"limits":{"cpus":"1","x":"cpu"}}',), []),
    ],
)
def test_only_amounts_in_quotes_leave_the_key(text, texts, amounts):
    assert without_amounts((*KEY, text)) == ((*KEY, texts), amounts)


@pytest.mark.parametrize(
    "text", [b'{"limits":{"\\u0063pu":"1"}}', '{"limits":{"cpu":"\ue000"}}'.encode(), b" " * (MAX_BYTES + 1)]
)
def test_a_text_that_could_hide_an_amount_or_that_is_long_gives_no_key(text):
    assert without_amounts((*KEY, text)) is None


quantities = st.one_of(
    st.integers(0, 10**12).map(str),
    st.tuples(
        st.integers(0, 10**12),
        st.sampled_from(["n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]),
    ).map(lambda drawn: f"{drawn[0]}{drawn[1]}"),
    st.tuples(st.integers(-20, 20), st.integers(0, 999), st.sampled_from(["", "m", "Gi", "e3", "E-2"])).map(
        lambda drawn: f"{drawn[0]}.{drawn[1]}{drawn[2]}"
    ),
    st.integers(-3, 3),
    st.sampled_from(
        ["", "a lot", "1_0", "\u0663", "1e99", "%b", "\ue000", 'q"', "a\\", "\n", None, 1.5, "0x1"]
    ),
    st.text(max_size=3),
)
others = st.dictionaries(
    st.sampled_from(["ephemeral-storage", "nvidia.com/gpu", "example.com/nic"]), st.just("1"), max_size=2
)
amounts = st.tuples(st.dictionaries(st.sampled_from(["cpu", "memory"]), quantities, max_size=2), others).map(
    lambda drawn: {**drawn[0], **drawn[1]}
)
of_container = st.fixed_dictionaries(
    {},
    optional={
        "limits": st.none() | amounts,
        "requests": st.none() | amounts,
        "claims": st.just([{"cpu": "1"}]),
    },
)


@st.composite
def forms(draw):
    """How many containers of each kind there are, and what else says how much a pod may take."""
    policies = ["Always", None, None]
    return (
        draw(st.integers(1, 2)),
        draw(st.lists(st.sampled_from(policies), max_size=3)),
        draw(st.sampled_from([(), (), (), ("overhead",), ("resources",), ("ephemeralContainers",)])),
    )


@st.composite
def sequences(draw):
    """Pods of one form, with other amounts in each."""
    regular, init, more = draw(forms())
    names = [*(f"c-{number}" for number in range(regular)), *(f"i-{number}" for number in range(len(init)))]
    first = {name: draw(of_container) for name in names}

    def one():
        own = {name: draw(st.one_of(st.just(first[name]), varied(first[name]))) for name in names}
        spec = {}
        if "overhead" in more:
            spec["overhead"] = {"cpu": draw(quantities)}
        if "resources" in more:
            spec["resources"] = draw(of_container)
        if "ephemeralContainers" in more:
            spec["ephemeralContainers"] = [{"name": "debug", "resources": draw(of_container)}]
        inits = [
            {
                **container(f"i-{at}", resources=own[f"i-{at}"]),
                **({} if policy is None else {"restartPolicy": policy}),
            }
            for at, policy in enumerate(init)
        ]
        containers = [container(f"c-{at}", resources=own[f"c-{at}"]) for at in range(regular)]
        return pod(containers=containers, initContainers=inits, **spec)

    return [one() for _ in range(draw(st.integers(3, 8)))]


def varied(made):
    """The same resources with other amounts."""
    return st.fixed_dictionaries(
        {
            field: st.fixed_dictionaries(
                {
                    name: quantities if name in {"cpu", "memory"} else st.just(amount)
                    for name, amount in found.items()
                }
            )
            if field != "claims" and found is not None
            else st.just(found)
            for field, found in made.items()
        }
    )


@settings(max_examples=examples(300))
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
