"""Tables of what names mean: as right as the function, as small as they must be."""

from webhook.admission.remembered import LONGEST, MOST, Remembered


def test_a_function_is_asked_once_for_each_text():
    asked = []
    lengths = Remembered(lambda text: asked.append(text) or len(text))
    assert [lengths["a"], lengths["bb"], lengths["a"]] == [1, 2, 1]
    assert asked == ["a", "bb"]


def test_an_answer_of_none_is_remembered_too():
    asked = []
    nothing = Remembered(asked.append)
    assert (nothing["a"], nothing["a"]) == (None, None)
    assert asked == ["a"]


def test_long_texts_are_answered_and_not_kept():
    lengths = Remembered(len)
    assert lengths["x" * (LONGEST + 1)] == LONGEST + 1
    assert lengths["x" * LONGEST] == LONGEST
    assert len(lengths) == 1


def test_however_many_texts_come_few_are_kept():
    lengths = Remembered(len)
    for number in range(MOST + 10):
        assert lengths[str(number)] == len(str(number))
    assert len(lengths) == 10
