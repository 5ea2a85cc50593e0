"""The annotation that takes GPUs out."""

from kube.cordon import indices_of, written


def test_what_is_written_is_read_back():
    assert written({10, 2, 0}) == "0,2,10"
    assert indices_of("0,2,10") == {0, 2, 10}
    assert indices_of(" 1, 3 ,,x gpu2 0.5 1234 -1") == {1, 3}
    assert indices_of("") == frozenset()
