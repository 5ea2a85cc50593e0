"""Over any pod: our patch gives exactly the described pod."""

import copy

from hypothesis import given, settings

from tests.effort import by_turns, examples
from tests.webhook.support import Webhook, default_policies, pods
from tests.webhook.support import pod_descriptions as describer

MARKER = default_policies().resolve("team", None, None).marker


@settings(max_examples=examples(by_turns("webhook", usual=75, full=150)))
@given(pods.pods())
def test_the_patch_gives_exactly_the_described_pod(made):
    found, chosen, gpu_inits = made
    before = copy.deepcopy(found)
    decided = Webhook().decide(found)
    assert decided.allowed, decided.message
    assert decided.stored == describer.describe(
        before,
        chosen=chosen,
        gpu_inits=gpu_inits,
        placement=decided.outcome.injection.placement,
        marker=MARKER,
    )
