import pytest

from modes.mig_profiles import (
    A30,
    A100_40GB,
    A100_80GB,
    B200,
    GB200,
    GH200_144GB,
    H100_80GB,
    H100_94GB,
    H100_96GB,
    H200,
    RTX_PRO_6000,
    card_of_product,
)


@pytest.mark.parametrize(
    ("label", "card"),
    [
        ("NVIDIA-A30", A30),
        ("NVIDIA-A100-SXM4-40GB", A100_40GB),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb-SHARED", A100_80GB),
        ("NVIDIA-H100-80GB-HBM3-SHARED", H100_80GB),
        ("NVIDIA-H100-NVL", H100_94GB),
        ("NVIDIA-GH200-480GB", H100_96GB),
        ("NVIDIA-H200-NVL-MIG-1g.18gb.me", H200),
        ("NVIDIA-B200", B200),
        ("Tesla-T4", None),
        ("NVIDIA-A100-SXM-64GB", None),
        ("NVIDIA-GH200-144G-HBM3e", GH200_144GB),
        ("NVIDIA-H20", H100_96GB),
        ("NVIDIA-H20-3e", None),
        ("NVIDIA-GB200", GB200),
        ("NVIDIA-B300-SXM6-AC", None),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition-MIG-1g.24gb", RTX_PRO_6000),
        ("NVIDIA-RTX-PRO-5000-Blackwell", None),
        ("", None),
    ],
)
def test_a_product_label_names_a_card(label, card):
    assert card_of_product(label) is card


def test_resource_names_have_a_dot_for_the_plus_sign():
    profile = H100_80GB.profile("nvidia.com/mig-1g.10gb.me")
    assert profile is not None
    assert (profile.name, profile.resource) == ("1g.10gb+me", "nvidia.com/mig-1g.10gb.me")
    assert H100_80GB.profile("1g.5gb") is None
