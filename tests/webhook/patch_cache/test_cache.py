"""The patch cache is bounded, whatever floods in, and is of no use under other policies."""

from tests.webhook.patch_cache.differential import entry_of, finish, learn
from tests.webhook.support import Webhook, as_body, container, pod, policies, review_of
from tests.webhook.support.many_policies import Roomy
from webhook.patch_cache import cache
from webhook.patch_cache.cache import PatchCache
from webhook.patch_cache.template import MARK
from webhook.review import Reviewer
from webhook.rules import Rules


def reviewer_of(policy_set, placer=None):
    return Reviewer(lambda: policy_set, PatchCache(Rules()), placer or Roomy(), lambda *_decision: None)


def numbered(number, **fields):
    """A review with a key of its own."""
    return as_body(review_of(pod(nodeSelector={"number": str(number)}, **fields)))


def test_only_so_many_keys_that_came_once_are_kept(monkeypatch):
    monkeypatch.setattr(cache, "MAX_SEEN_ONCE", 50)
    policy_set = policies()
    reviewer = reviewer_of(policy_set)
    for number in range(120):
        assert entry_of(reviewer, policy_set, numbered(number)) is None
        assert len(reviewer.dispatcher.decider._seen_once) <= 50
    assert reviewer.dispatcher.decider._entries == {}


def test_entries_and_their_templates_keep_to_their_bytes_under_a_flood(monkeypatch):
    monkeypatch.setattr(cache, "MAX_BYTES", 200_000)
    policy_set = policies()
    reviewer = reviewer_of(policy_set, Roomy(*((index, 81920, "gpu-1", ("81920",)) for index in range(7))))
    patch_cache = reviewer.dispatcher.decider
    sizes = []
    for number in range(60):
        body = numbered(number)
        assert learn(reviewer, policy_set, body)
        for _ in range(3):
            finish(reviewer.review(body))
        assert patch_cache._bytes <= 200_000
        kept = [template for entry in patch_cache._entries.values() for template in entry._templates.values()]
        sizes.append(sum(len(text) for template in kept for text in template.texts))
        assert sizes[-1] <= patch_cache._bytes
    assert max(sizes) > sizes[-1] > 0


def test_one_key_in_a_flood_of_places_keeps_to_its_bytes_and_is_rendered_rightly(monkeypatch):
    monkeypatch.setattr(cache, "MAX_BYTES", 100_000)
    webhook = Webhook()
    webhook.placer._placer = Roomy(*((index, 81920, None, ("81920",)) for index in range(100)))
    for index in range(100):
        limits = webhook.decide(pod()).container()["resources"]["limits"]
        assert limits == {f"nvidia.com/gpu-{index}": "4"}
        assert webhook.reviewer.dispatcher.decider._bytes <= 100_000


def test_a_key_that_is_too_long_is_never_kept():
    policy_set = policies()
    reviewer = reviewer_of(policy_set)
    long = as_body(review_of(pod(nodeSelector={"a": "b" * cache.MAX_KEY})))
    many = as_body(review_of(pod(containers=[container(f"c-{number}") for number in range(2000)])))
    for body in (long, many):
        assert not learn(reviewer, policy_set, body)
    assert reviewer.dispatcher.decider._entries == {}


def test_key_readers_are_bounded_by_the_number_of_policies(monkeypatch):
    monkeypatch.setattr(cache, "MAX_POLICIES", 4)
    webhook = Webhook()
    for reserve in range(9):
        webhook.policies = policies(f"memory: {{reserveMiB: {reserve}}}")
        assert webhook.decide(pod(), dryRun=True).annotations["clearml-injector/memory-mib"] == str(
            webhook.outcomes[-1].injection.placement.gpu_mib // 2 - reserve
        )
        assert len(webhook.reviewer.dispatcher.decider._readers) <= 4


def test_after_a_reload_nothing_of_the_old_policies_is_used():
    webhook = Webhook()
    reserving, unlimited = policies("memory: {reserveMiB: 1000}"), policies("limiter: none")
    for policy_set in (policies(), reserving, unlimited, policies(), unlimited, reserving):
        webhook.policies = policy_set
        decided = webhook.decide(pod(), dryRun=True)
        marker = policy_set.resolve("team", None, None).marker
        assert decided.annotations["clearml-injector/injected"] == marker
        assert ("initContainers" in decided.spec) == (policy_set is not unlimited)


def test_policies_that_hold_the_mark_give_no_key_and_the_rules_write_it():
    webhook = Webhook(policies(f'env: {{HERE: "{MARK}0{MARK}{{container}}", REST: "100%b"}}'))
    assert not webhook.learn(review_of(pod()))
    assert dict(webhook.decide(pod()).env())["HERE"] == f"{MARK}0{MARK}train"


class Interrupting(Roomy):
    """A placer in whose time other things happen."""

    def __init__(self):
        super().__init__()
        self.meanwhile = []

    def place(self, ask):
        for happens in self.meanwhile:
            happens()
        return super().place(ask)


def test_a_pod_that_waits_for_its_place_keeps_the_entry_and_the_policy_it_began_with():
    webhook = Webhook(again=False)
    webhook.placer._placer = Interrupting()
    before = webhook.policies
    webhook.learn(review_of(pod()))
    webhook.placer._placer.meanwhile = [
        webhook.reviewer.dispatcher.decider._entries.clear,
        webhook.reviewer.dispatcher.decider._readers.clear,
    ]
    decided = webhook.send(review_of(pod()), learns=False)
    assert decided.annotations["clearml-injector/injected"] == before.resolve("team", None, None).marker
    assert webhook.reviewer.dispatcher.decider._entries == {}
