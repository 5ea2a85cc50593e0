"""Patterns of GPU models: as fnmatch has them, and nothing of what a pod's author wrote is kept."""

import fnmatch

from hypothesis import given
from hypothesis import strategies as st

from modes.gpu_kinds import GpuKinds, matches

WORD = st.text("AG*B", max_size=8)


@given(WORD.filter(lambda text: text), st.text("AGB", max_size=8))
def test_a_star_is_any_part_of_a_word(pattern, word):
    wanted = fnmatch.fnmatchcase(word, pattern) or fnmatch.fnmatchcase(word, pattern + "GB")
    assert matches(pattern, word) == wanted


def test_patterns_are_compiled_and_kept_nowhere(monkeypatch):
    compiled = []
    monkeypatch.setattr("re.compile", lambda *pattern: compiled.append(pattern))
    assert not GpuKinds(("H*4*7*2-80",)).takes_model("NVIDIA-A100-SXM4-80GB")
    assert compiled == []
