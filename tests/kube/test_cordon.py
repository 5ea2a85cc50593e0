"""The annotation that takes GPUs out."""

import pytest

from kube.cordon import indices_of, problem, written


def test_what_is_written_is_read_back():
    assert written({10, 2, 0}) == "0,2,10"
    assert indices_of("0,2,10") == {0, 2, 10}
    assert indices_of(" 1, 3 ,,x gpu2 0.5 1234 -1") == {1, 3}
    assert indices_of("") == frozenset()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0", None),
        (" 0, 1 ", None),
        ("", None),
        ("gpu0", '"gpu0" is not a GPU index and is ignored: write indices, such as "0,2"'),
        ("0;1", '"0;1" is not a GPU index'),
        ("true", '"true" is not a GPU index'),
        ("-1", '"-1" is not a GPU index'),
        ("0,7", "the node has no GPU 7: it has 0,1; fix the annotation"),
        ("x" * 1000, f'"{"x" * 60}" is not a GPU index'),
    ],
)
def test_a_bad_value_is_reported(text, said):
    found = problem(text, [0, 1])
    assert found is None if said is None else said in found
