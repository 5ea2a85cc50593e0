import pytest

from modes.mig_profiles import A30, A100_80GB, H100_96GB, RTX_PRO_6000, card_of_product


@pytest.mark.parametrize(
    ("label", "card"),
    [
        ("NVIDIA-A30", A30),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb-SHARED", A100_80GB),
        ("NVIDIA-GH200-480GB", H100_96GB),
        ("Tesla-T4", None),
        ("NVIDIA-A100-SXM-64GB", None),
        ("NVIDIA-H20-3e", None),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition-MIG-1g.24gb", RTX_PRO_6000),
        ("", None),
    ],
)
def test_a_product_label_names_a_card(label, card):
    assert card_of_product(label) is card
