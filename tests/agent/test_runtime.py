"""Which container runtimes obey CDI."""

import pytest

from agent.runtime import cdi_problem


@pytest.mark.parametrize(
    "version", ["containerd://1.7.0", "containerd://2.2.1", "cri-o://1.30.4", "containerd://v2.0"]
)
def test_runtimes_that_obey_cdi(version):
    assert cdi_problem("cdi", version) is None


@pytest.mark.parametrize("version", ["containerd://1.6.36", "docker://27.1.0", "cri-o://1.22.0"])
def test_older_and_other_ones_need_the_fallback_which_says_what_it_cannot_guarantee(version):
    problem = cdi_problem("cdi", version)
    assert problem.endswith(
        "upgrade it, or choose --device-list-strategy volume-mounts or envvar, with which a pod can lift its"
        " memory limit"
    )
    assert cdi_problem("volume-mounts", version) is None


@pytest.mark.parametrize("version", [None, "", "1.7.27", "containerd://x"])
def test_a_version_that_says_nothing_is_not_trusted(version):
    assert "version" in cdi_problem("cdi", version)
    assert cdi_problem("envvar", version) is None
