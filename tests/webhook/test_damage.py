"""Real reviews with one part replaced by anything: each is answered, none breaks us, none slips through."""

import copy

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.webhook.support import FIXTURES, LABEL, Webhook, fixture_review

REVIEWS = sorted(
    path.name.removesuffix(".json")
    for path in (FIXTURES / "admission-reviews").iterdir()
    if not path.name.startswith("bad-label") or "nan" in path.name
)
WEBHOOK = Webhook()

TEXTS = ["0.500", "1", "/dev", "/usr/local/vgpu", "void", "1e400", "-1", "train", "~/", "__class__"]
KEYS = ["name", "value", "limits", "env", "labels", "nvidia.com/gpu", LABEL, "", "~1/"]
numbers = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
anything = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=5) | st.sampled_from(TEXTS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def damaged(draw):
    """A review in which one value, anywhere below `object`, was replaced, removed or added.

    Some of the pods were injected before.
    """
    review = fixture_review(draw(st.sampled_from(REVIEWS)))
    review["request"]["dryRun"] = True
    if draw(st.booleans()) and (first := WEBHOOK.send(review)).allowed:
        review["request"]["object"] = first.stored
    parent, key = review["request"], "object"
    while isinstance(parent[key], dict | list) and parent[key] and draw(st.integers(0, 5)):
        parent = parent[key]
        key = draw(st.sampled_from(range(len(parent)) if isinstance(parent, list) else sorted(parent)))
    match draw(st.sampled_from(["replace", "remove", "double"])):
        case "replace":
            parent[key] = draw(anything)
        case "remove":
            del parent[key]
        case _ if isinstance(parent, list):
            parent.append(copy.deepcopy(parent[key]))
        case _ if parent is review["request"]:
            parent["x-future"] = parent.pop(key)
        case _:
            parent[draw(st.sampled_from(["x", "name", LABEL]))] = copy.deepcopy(parent[key])
    return review


def is_labelled(review):
    found = review["request"].get("object")
    metadata = found.get("metadata") if isinstance(found, dict) else None
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return isinstance(labels, dict) and LABEL in labels


@settings(max_examples=examples(300))
@given(damaged())
def test_every_damaged_review_is_answered_and_no_labelled_pod_slips_through(review):
    decided = WEBHOOK.send(review)
    response = decided.reply["response"]
    assert response["uid"] == review["request"]["uid"]
    assert decided.code != "internal-error", decided.outcome.error
    if not decided.allowed:
        assert is_labelled(review)
        assert len(decided.message) <= 200
        assert decided.message.isprintable()
    elif is_labelled(review) and review["request"]["operation"] == "CREATE":
        assert decided.code in ("injected", "unchanged")
        assert WEBHOOK.decide(decided.stored, dryRun=True, namespace="default").patch == []
    else:
        assert decided.patch == []
