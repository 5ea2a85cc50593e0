"""Any pods, one after the other, through one reviewer: each gets what the rules give it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import by_turns, examples
from tests.webhook.patch_cache.differential import Recorder, check_by_rules, finish
from tests.webhook.support import as_body, container, pods, review_of
from tests.webhook.support import pod as plain_pod
from tests.webhook.support.field_values import TEXTS, VALUES
from tests.webhook.support.many_policies import POLICIES, Roomy
from tests.webhook.support.mutations import changed, places_in
from webhook.patch_cache.cache import PatchCache
from webhook.review import Reviewer
from webhook.rules import Rules

FIELDS_OF = {
    kind: [field for field in VALUES if field.partition(".")[0] == kind]
    for kind in {field.partition(".")[0] for field in VALUES}
}
names = st.one_of(st.sampled_from(TEXTS), st.text(max_size=8), st.integers(40, 64).map("n".__mul__))


@st.composite
def usual(draw):
    """A pod as most are: what differs is names, and how many of everything there are."""
    env = [{"name": f"V{number}", "value": draw(names)} for number in range(draw(st.integers(0, 2)))]
    amounts = draw(st.sampled_from([{}, {"cpu": "1"}, {"nvidia.com/gpu": "1"}]))
    fields = {"env": env} if env or draw(st.booleans()) else {}
    extra = [container(draw(names)) for _ in range(draw(st.integers(0, 1)))] if amounts else []
    first = container(draw(names), limits=amounts, **fields)
    return plain_pod(containers=[first, *extra], metadata={"name": draw(names)})


@st.composite
def reviews(draw):
    """Variants of a pod or two: of each some fields were changed, and most come more than once."""
    bases = draw(st.lists(st.one_of(usual(), pods.pods().map(lambda made: made[0])), min_size=1, max_size=2))
    variants = [review_of(base) for base in bases]
    for _ in range(draw(st.integers(0, 4))):
        review = draw(st.sampled_from(variants))
        places = [(kind.__name__, path) for kind, path in places_in(review) if kind.__name__ in FIELDS_OF]
        kind, path = draw(st.sampled_from(places))
        field = draw(st.sampled_from(FIELDS_OF[kind]))
        value = draw(st.sampled_from(VALUES[field]))
        if field not in {"Pod.metadata", "Pod.spec"}:
            variants.append(changed(review, path, field, value))
    return draw(st.lists(st.sampled_from(variants), min_size=3, max_size=12))


policy_sets = st.one_of(
    st.sampled_from(list(POLICIES.values())).map(lambda one: [one]),
    st.lists(st.sampled_from(list(POLICIES.values())), min_size=2, max_size=3),
)


places = st.lists(
    st.tuples(
        st.sampled_from([0, 7]),
        st.sampled_from([(81920, "81920"), (81920, "81920", "81921"), (40960, "40960"), (8, "8")]),
        st.sampled_from(["gpu-1", "gpu-2", None, 'n"%b']),
    ).map(lambda drawn: (drawn[0], drawn[1][0], drawn[2], drawn[1][1:])),
    min_size=1,
    max_size=3,
)


@settings(max_examples=examples(by_turns("webhook", usual=100, full=400)))
@given(reviews(), policy_sets, places)
def test_a_pod_is_decided_the_same_whatever_came_before_it(sequence, policy_sets, places):
    current, placer, outcomes = list(policy_sets), Recorder(Roomy(*places)), []
    reviewer = Reviewer(
        lambda: current[0],
        PatchCache(Rules()),
        placer,
        lambda _request, made, _seconds: outcomes.append(made),
    )
    for review in sequence:
        body = as_body(review)
        answered = finish(reviewer.review(body))
        check_by_rules(body, current[0], answered, outcomes[-1], placer.take())
        # The policies are loaded again between any two pods.
        current.append(current.pop(0))
