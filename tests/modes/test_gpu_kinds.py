"""Patterns of GPU models: as fnmatch has them, and nothing of what a pod's author wrote is kept."""

import fnmatch

from hypothesis import given
from hypothesis import strategies as st

from modes.gpu_kinds import matches

WORD = st.text("AG*B", max_size=8)


@given(WORD.filter(lambda text: text), st.text("AGB", max_size=8))
def test_a_star_is_any_part_of_a_word(pattern, word):
    wanted = fnmatch.fnmatchcase(word, pattern) or fnmatch.fnmatchcase(word, pattern + "GB")
    assert matches(pattern, word) == wanted
