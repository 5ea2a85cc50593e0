"""Places of viewers: bounded, and shared fairly, while viewers come and go."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from web.places import MAX_OF_NAMESPACES, MAX_OF_ONE_NAMESPACE, MAX_VIEWERS, NoPlaceError, Places

COMING = st.lists(st.tuples(st.sampled_from([None, *"abcdefgh"]), st.booleans()), max_size=80)


def take(places, namespace):
    """A place, or None where there is none."""
    try:
        return places.take(namespace)
    except NoPlaceError:
        return None


@given(COMING)
def test_places_stay_bounded_and_no_namespace_is_shut_out_by_one_that_has_more(coming):
    places, taken = Places(), []
    for namespace, goes in coming:
        place = take(places, namespace)
        taken = [each for each in [*taken, place] if each is not None and not each.is_lost]
        by_namespace = Counter(each.namespace for each in taken)
        bound = Counter({name: count for name, count in by_namespace.items() if name is not None})
        assert len(taken) <= MAX_VIEWERS
        assert bound.total() <= MAX_OF_NAMESPACES
        assert max(bound.values(), default=0) <= MAX_OF_ONE_NAMESPACE
        if place is None and namespace is None:
            assert len(taken) == MAX_VIEWERS
        if place is None and namespace is not None:
            assert max(bound.values(), default=0) <= max(by_namespace[namespace] + 1, MAX_OF_ONE_NAMESPACE)
            assert bound[namespace] > 0 or max(bound.values(), default=0) <= 1
        if goes and taken:
            places.give_back(taken.pop(0))
    for each in taken:
        places.give_back(each)
    assert places.are_empty


def test_those_who_see_all_find_room_whatever_namespaces_do():
    places = Places()
    for number in range(100):
        take(places, f"team-{number}")
    assert [take(places, None) is not None for _ in range(MAX_VIEWERS - MAX_OF_NAMESPACES)] == [True] * 4


def test_the_newest_viewer_of_the_namespace_that_has_most_makes_room_and_cannot_take_it_back():
    places = Places()
    greedy = [places.take("greedy") for _ in range(MAX_OF_ONE_NAMESPACE)]
    others = [places.take("other") for _ in range(MAX_OF_NAMESPACES - MAX_OF_ONE_NAMESPACE)]
    places.take("newcomer")
    assert [place.is_lost for place in greedy] == [False] * (MAX_OF_ONE_NAMESPACE - 1) + [True]
    assert not any(place.is_lost for place in others)
    places.give_back(greedy[-1])
    assert take(places, "greedy") is None
