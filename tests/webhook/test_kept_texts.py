"""What is kept, logged or repeated of a review is what Kubernetes allows, regardless of who wrote it."""

import functools
import gc
from types import SimpleNamespace

import pytest

from kube.names import MAX_LABEL_VALUE, MAX_NAME
from tests.webhook.support import Webhook, as_body, container, fixture_ledger, pod, policies, review_of
from webhook.admission_review import UnreadableReviewError, decode
from webhook.placing.placer import LedgerPlacer

LONG = "x" * 2**16


@pytest.mark.parametrize(
    "review",
    [
        *(review_of(pod(), uid=uid) for uid in (LONG, "u" * 254, "two words", "a\nb", "a/b", "\u0661")),
        *(
            review_of(pod(fraction=None), namespace=namespace)
            for namespace in (LONG, "a" * 64, "Team", "a/b", "-a", "two words", "a\nb")
        ),
        review_of(pod()) | {"apiVersion": LONG},
    ],
)
def test_a_review_whose_uid_namespace_or_version_cannot_be_one_is_unreadable(review):
    with pytest.raises(UnreadableReviewError) as error:
        decode(as_body(review))
    assert len(str(error.value)) < 200


AMOUNTS = {
    "an instance": ("nvidia.com/mig-{}" + LONG, "1"),
    "a GPU": ("nvidia.com/gpu-{}" + LONG, "1"),
    "something of NVIDIA": ("nvidia.com/{}" + LONG, "1"),
    "something else": ("{}.example.com/" + LONG, "1"),
    "cpu": ("cpu", "{}" + LONG),
}


@pytest.mark.parametrize("what", AMOUNTS)
@pytest.mark.parametrize("mode", ["per-gpu", "pooled", "mig"])
def test_no_function_remembers_a_resource_or_an_amount_of_any_length(mode, what):
    name, amount = AMOUNTS[what]
    webhook = Webhook(policies(f"resources: {{mode: {mode}}}"))
    functions = remembering_functions()
    for each in functions:
        each.cache_clear()
    for number in range(3):
        limits = {name.format(number): amount.format(number)}
        webhook.decide(pod(containers=[container(limits=limits)]), uid=f"uid-{number}")
    remembered = {each.__qualname__: longest_text(each) for each in functions}
    assert len(remembered) > 5
    assert {name: length for name, length in remembered.items() if length > MAX_NAME} == {}


def remembering_functions():
    """Every function of the product that keeps results by its arguments."""
    rooms = ("webhook", "ledger", "modes", "policies", "kube")
    gc.unfreeze()  # what another test froze is not listed
    every = [each for each in gc.get_objects() if isinstance(each, functools._lru_cache_wrapper)]
    return [each for each in every if (each.__module__ or "").split(".")[0] in rooms]


def longest_text(function):
    """Characters of the longest text among the arguments and results that a function keeps."""
    found, waiting, longest = set(), [function], 0
    while waiting:
        for each in gc.get_referents(waiting.pop()):
            if id(each) in found:
                continue
            found.add(id(each))
            if isinstance(each, str | bytes):
                longest = max(longest, len(each))
            elif isinstance(each, dict | tuple) or type(each).__name__ == "_lru_list_elem":
                waiting.append(each)
    return longest


@pytest.mark.parametrize("profile", [LONG, "1g.10gb" + LONG])
def test_a_placement_request_never_holds_a_name_of_any_length(profile):
    kept, placer = [], LedgerPlacer(fixture_ledger())
    keeping = SimpleNamespace(place=lambda request: (kept.append(request), placer.place(request))[1])
    webhook = Webhook(policies("resources: {mode: mig}"), placer=keeping)
    denied = webhook.decide(pod(containers=[container(limits={f"nvidia.com/mig-{profile}": "1"})]))
    assert denied.message.endswith("is not a known MIG profile: use another, or leave the resource out")
    assert [len(request.demands.resource) <= MAX_NAME + 1 + MAX_LABEL_VALUE for request in kept] == [True]
