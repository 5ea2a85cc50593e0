"""CDI specifications that NVIDIA's own toolkit writes, and what our agent makes of them."""

from pathlib import Path

import pytest

from agent.card_names import CardNames
from agent.cdi import CdiError
from agent.gpu import Gpu
from testbed.nvidia.cards import Card, NvmlNode
from testbed.nvidia.driver_root import DriverRoot
from tests.agent.support.nvidia import nvidia_programs

FIRST, SECOND = "GPU-11111111-1111-1111-1111-111111111111", "GPU-22222222-2222-2222-2222-222222222222"
CARDS = Card(FIRST), Card(SECOND, minor=1)
HOOK = Path("/usr/local/nvidia/toolkit/nvidia-cdi-hook")


@pytest.fixture
def programs(say):
    return nvidia_programs(say)


@pytest.fixture
def driver(tmp_path, programs):
    return DriverRoot(tmp_path / "driver", NvmlNode(CARDS))


async def names(folder):
    """The CDI devices that our agent finds for the cards."""
    found = CardNames([str(folder)])
    await found.read([Gpu(number, card.uuid, card.name, 40960) for number, card in enumerate(CARDS)])
    return found


async def test_our_agent_finds_the_cards_of_the_toolkit_and_their_hooks(programs, driver, tmp_path):
    programs.generate_cards(driver, "nvidia.com", tmp_path / "nvidia.yaml", HOOK)
    found = await names(tmp_path)
    assert found.names == {FIRST: f"nvidia.com/gpu={FIRST}", SECOND: f"nvidia.com/gpu={SECOND}"}
    assert set(found.limit_hooks) == {FIRST, SECOND}
    assert found.limit_hooks[SECOND].path == str(HOOK)


async def test_the_one_device_of_all_cards_is_no_name_of_a_card(programs, driver, tmp_path):
    programs.generate_management(driver, tmp_path / "management.yaml", HOOK)
    with pytest.raises(CdiError, match="names GPU 0"):
        await names(tmp_path)
