"""Whatever a pod or its request holds in a field that a rule reads: one short answer, no internal error."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import by_turns, examples
from tests.webhook.support import as_body, pods, review_of
from tests.webhook.support.bounded_work import check_answer
from tests.webhook.support.field_values import VALUES
from tests.webhook.support.many_policies import PLACES, POLICIES, Roomy
from tests.webhook.support.mutations import FIELDS, changed, places_in
from webhook.admission_review import UnreadableReviewError
from webhook.review import Reviewer
from webhook.rules import Rules

FIELDS_OF = {
    kind: [field for field in VALUES if field.partition(".")[0] == kind]
    for kind in {field.partition(".")[0] for field in VALUES}
}


def test_every_field_that_can_be_read_has_values_to_try():
    assert VALUES.keys() == FIELDS.keys()


@st.composite
def reviews(draw):
    """A pod in which up to four fields have a listed value."""
    review = review_of(draw(pods.pods())[0])
    for _ in range(draw(st.integers(1, 4))):
        places = [(kind.__name__, path) for kind, path in places_in(review) if kind.__name__ in FIELDS_OF]
        kind, path = draw(st.sampled_from(places))
        field = draw(st.sampled_from(FIELDS_OF[kind]))
        if field not in {"Pod.metadata", "Pod.spec"}:
            review = changed(review, path, field, draw(st.sampled_from(VALUES[field])))
    return review


@settings(max_examples=examples(by_turns("webhook", usual=160, full=2000)))
@given(reviews(), st.sampled_from(list(POLICIES)), st.sampled_from(PLACES))
def test_any_listed_value_in_any_field_gets_one_short_answer(review, policy, place):
    outcomes = []
    reviewer = Reviewer(
        lambda: POLICIES[policy],
        Rules(),
        Roomy(place),
        lambda _request, made, _seconds: outcomes.append(made),
    )
    try:
        check_answer(reviewer.answer(as_body(review)))
    except UnreadableReviewError:
        assert review["request"]["uid"] != review_of({})["request"]["uid"]
    else:
        assert outcomes[0].error is None
