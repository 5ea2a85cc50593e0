import pytest

from modes.mig_profiles import (
    A30,
    A100_40GB,
    A100_80GB,
    B200,
    CARDS,
    GB200,
    GH200_144GB,
    H100_80GB,
    H100_94GB,
    H100_96GB,
    H200,
    RTX_PRO_6000,
    card_of_product,
)

LISTED = {
    A30: "1g.6gb 1g.6gb+me 2g.12gb 2g.12gb+me 4g.24gb",
    A100_40GB: "1g.5gb 1g.5gb+me 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb",
    A100_80GB: "1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb",
    H100_80GB: "1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb",
    H100_94GB: "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.47gb 4g.47gb 7g.94gb",
    H100_96GB: "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb",
    H200: "1g.18gb 1g.18gb+me 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb",
    B200: "1g.23gb 1g.23gb+me 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb",
    GH200_144GB: "1g.18gb 1g.18gb+me 1g.36gb 2g.36gb 3g.72gb 4g.72gb 7g.144gb",
    GB200: "1g.23gb 1g.23gb+me 1g.47gb 2g.47gb 3g.93gb 4g.93gb 7g.186gb",
    RTX_PRO_6000: "1g.24gb 1g.24gb+me 2g.48gb 4g.96gb",
}
"""As the tables of NVIDIA's user guide name them."""


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_cards_have_the_profiles_of_nvidias_tables(card):
    assert [profile.name for profile in card.profiles] == LISTED[card].split()


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_a_profile_has_the_compute_of_its_name_and_at_most_the_memory(card):
    for profile in card.profiles:
        compute, gigabytes = profile.name.removesuffix("+me").removesuffix("gb").split("g.")
        assert profile.compute == int(compute)
        assert int(gigabytes) * 1024 * 0.85 < profile.mib <= int(gigabytes) * 1024


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_more_memory_slices_are_at_least_as_much_memory_in_proportion(card):
    smallest = card.profiles[0]
    for profile in card.profiles:
        assert profile.mib >= smallest.mib * profile.memory // smallest.memory
        assert all(start + profile.memory <= card.memory for start in profile.starts)


@pytest.mark.parametrize(
    ("label", "card"),
    [
        ("NVIDIA-A30", A30),
        ("NVIDIA-A100-SXM4-40GB", A100_40GB),
        ("A100-PCIE-40GB", A100_40GB),
        ("NVIDIA-A100-80GB-PCIe", A100_80GB),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", A100_80GB),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb-SHARED", A100_80GB),
        ("NVIDIA-H100-80GB-HBM3-SHARED", H100_80GB),
        ("NVIDIA-H100-NVL", H100_94GB),
        ("NVIDIA-GH200-480GB", H100_96GB),
        ("NVIDIA-H200", H200),
        ("NVIDIA-H200-NVL-MIG-1g.18gb.me", H200),
        ("NVIDIA-B200", B200),
        ("Tesla-T4", None),
        ("NVIDIA-A100-SXM-64GB", None),
        ("NVIDIA-GH200-144G-HBM3e", GH200_144GB),
        ("NVIDIA-H100-96GB-HBM3", H100_96GB),
        ("NVIDIA-H20", H100_96GB),
        ("NVIDIA-H20-3e", None),
        ("NVIDIA-GB200", GB200),
        ("NVIDIA-GB300", None),
        ("NVIDIA-B300-SXM6-AC", None),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", RTX_PRO_6000),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Workstation-Edition", RTX_PRO_6000),
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
