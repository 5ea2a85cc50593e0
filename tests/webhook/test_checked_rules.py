"""Of the pods that the rules decide the first of each kind is checked, and of the later ones a few."""

import json

import pytest

from tests.webhook.support import Webhook, container, pod, policies, review_of
from webhook import checked_rules
from webhook.admission.patched import UnsoundPatchError


@pytest.fixture
def checked(monkeypatch):
    """The pods that were checked."""
    found, plain = [], checked_rules.check_patch

    def check(*args):
        found.append(args[0]["metadata"]["name"])
        plain(*args)

    monkeypatch.setattr(checked_rules, "check_patch", check)
    return found


def send(webhook, number, **fields):
    """Decide a pod that has no key, as a rule must look at its volume."""
    volumes = [{"name": "a", "hostPath": {"path": "/data"}}]
    found = pod(metadata={"name": f"pod-{number}"}, volumes=volumes, **fields)
    reply = webhook.reviewer.answer(json.dumps(review_of(found, uid=f"uid-{number}", dryRun=True)).encode())
    return json.loads(reply)["response"]["allowed"]


def test_the_first_of_a_kind_is_checked_and_then_one_in_so_many(checked, monkeypatch):
    monkeypatch.setattr(checked_rules, "EVERY", 4)
    webhook = Webhook()
    for number in range(10):
        send(webhook, number)
    assert checked == ["pod-0", "pod-4", "pod-8"]


def test_another_kind_begins_again(checked):
    webhook = Webhook(policies('fractions: {"0.500": 4, "2.000": 16}'))
    for number, fraction in enumerate(["0.500", "0.500", "2.000", "2.000"]):
        send(webhook, number, fraction=fraction)
    assert checked == ["pod-0", "pod-2"]


def test_what_is_counted_is_bounded(monkeypatch):
    monkeypatch.setattr(checked_rules, "MAX_KINDS", 2)
    webhook = Webhook(policies('fractions: {"0.500": 4, "2.000": 16}'))
    for number in range(8):
        found = {"fraction": ["0.500", "2.000"][number % 2]}
        send(webhook, number, containers=[container()], **found)
        assert len(webhook.reviewer.dispatcher.decider._rules._begun) <= 2


def test_a_pod_that_is_denied_is_not_checked(checked):
    assert not send(Webhook(), 0, fraction="0.5")
    assert checked == []


@pytest.mark.parametrize(
    ("alias", "fields"),
    [
        ("kai", {"metadata": {"annotations": {"gpu-fraction": "0.5"}}}),
        ("hami", {"containers": [container(limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4096"})]}),
    ],
)
def test_the_first_pod_in_another_systems_syntax_is_checked_too(checked, alias, fields):
    webhook = Webhook(policies(f"aliases: {{{alias}: true}}"))
    for number in range(2):
        metadata = {"name": f"pod-{number}"} | fields.get("metadata", {})
        found = pod(fraction=None, **(fields | {"metadata": metadata}))
        review = review_of(found, uid=f"uid-{number}", dryRun=True)
        assert json.loads(webhook.reviewer.answer(json.dumps(review).encode()))["response"]["patch"]
    assert checked == ["pod-0"]


def test_an_unsound_patch_for_another_systems_syntax_is_not_sent(monkeypatch):
    def refuse(*_):
        raise UnsoundPatchError("annotations: lost")

    monkeypatch.setattr(checked_rules, "check_patch", refuse)
    webhook = Webhook(policies("aliases: {kai: true}"))
    found = pod(fraction=None, metadata={"annotations": {"gpu-fraction": "0.5"}})
    reply = json.loads(webhook.reviewer.answer(json.dumps(review_of(found)).encode()))
    assert (reply["response"]["allowed"], "patch" in reply["response"]) == (False, False)
