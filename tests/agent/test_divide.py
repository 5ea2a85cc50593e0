"""Some cards of a node are divided, and the others stay whole."""

import pytest
from typer.testing import CliRunner

from agent.divide import is_card_name, is_divided
from agent.gpu import Gpu
from cli.app import app
from tests.agent.support.node import POOLED, card, node_with, ready, running, until_says

LARGE = Gpu(3, "GPU-c0ffee-1", "NVIDIA A100-SXM4-80GB", 81920)


@pytest.mark.parametrize(
    ("cards", "divided"),
    [
        ((), True),
        (("3",), True),
        (("03",), True),
        (("1", "13"), False),
        (("0", "GPU-c0ffee-1"), True),
        (("GPU-c0ffee",), False),
        (("GPU-c0ffee-12",), False),
        (("A100-80",), True),
        (("a100-sxm4*",), True),
        (("H100", "A100-40"), False),
        (("NVIDIA-A100-SXM4-80GB",), True),
    ],
)
def test_a_card_is_named_by_index_uuid_or_words_of_its_model(cards, divided):
    assert is_divided(LARGE, cards) is divided


@pytest.mark.parametrize("text", ["", " ", "0,1", "-1", "GPU-a b", "A100 80", "x" * 80, "GPU-" + "a" * 80])
def test_what_names_no_card_ends_the_command_with_what_to_write(text):
    assert not is_card_name(text)
    result = CliRunner().invoke(app, ["agent", "--divide", "0", "--divide", text])
    assert result.exit_code == 2
    assert f'--divide "{text}" names no card: write an index such as 0' in result.stderr


async def test_only_the_named_cards_are_offered():
    cards = card(0), card(1, 81920, name="NVIDIA A100-SXM4-80GB")
    async with node_with(*cards, divide=("A100-80*",)) as (node, kubelet):
        node.write_card_names("GPU-1")  # of one that stays whole no name is needed
        async with running(node) as process:
            await kubelet.until_offered("nvidia.com/gpu-1")
            await until_says(process, None)
            assert kubelet.devices.keys() == {"nvidia.com/gpu-1"}


async def test_a_pool_has_one_name_for_all_cards_so_that_none_can_stay_whole():
    async with (
        node_with(card(0), card(1), divide=("0",)) as (node, kubelet),
        running(node, POOLED) as process,
    ):
        await until_says(process, "use mode per-gpu")
        assert (await ready(process)).status_code == 503
        assert kubelet.devices == {}
