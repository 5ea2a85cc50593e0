"""More clusters for which nothing was tuned."""

import pytest

from tests.bench.test_regimes import behind


@pytest.mark.parametrize("name", ["MiB only", "small MiB", "all tolerate", "smallest first"])
def test_ours_fills_as_much_as_the_best_reference(name):
    assert behind(name) <= 1.5
