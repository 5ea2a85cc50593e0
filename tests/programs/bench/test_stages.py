"""The proof on a GPU, on a machine without one: over NVIDIA's toolkit and a library with NVML's ABI."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.nvidia.cards import Card, MigInstance, NvmlNode
from testbed.nvidia.driver_root import DriverRoot
from tests.agent.support.nvidia import nvidia_programs

ROOT = Path(__file__).parents[3]
FIRST, SECOND = "GPU-11111111-1111-1111-1111-111111111111", "GPU-22222222-2222-2222-2222-222222222222"
CARDS = (
    Card(FIRST, memory_mib=40960, reserved_mib=583),
    Card(SECOND, "NVIDIA A100-SXM4-80GB", minor=1, memory_mib=81920, reserved_mib=1024),
)
SMI = """#!/bin/sh
case "$1" in --query-gpu=*) cat {}/gpus.csv;; esac
"""


class Machine:
    """A driver's files, NVIDIA's generator, and a stand-in for nvidia-smi."""

    def __init__(self, folder, programs):
        self.driver = DriverRoot(folder / "driver", NvmlNode(CARDS))
        self._programs = programs
        self._folder = folder
        self.smi = folder / "nvidia-smi"
        self.smi.write_text(SMI.format(folder))
        self.smi.chmod(0o755)
        self.tell(*CARDS)

    def tell(self, *cards):
        """Have nvidia-smi say that these cards are there."""
        rows = [
            f"{index}, {card.uuid}, {card.name}, {card.memory_mib}, {card.reserved_mib}\n"
            for index, card in enumerate(cards)
        ]
        (self._folder / "gpus.csv").write_text("".join(rows))

    def prove(self, *options):
        """Run the command to its end; its exit status, and its lines by stage."""
        given = (
            f"--driver-root={self.driver.folder}",
            f"--nvidia-smi={self.smi}",
            f"--nvidia-ctk={self._programs.ctk}",
            *options,
        )
        ended = subprocess.run(
            [sys.executable, "-m", "bench.gpu", *given],
            cwd=ROOT,
            env={**os.environ, **self.driver.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        machine, *lines = [json.loads(line) for line in ended.stdout.splitlines()]
        assert machine["product"], ended.stderr
        return ended.returncode, {line["stage"]: line for line in lines}


@pytest.fixture
def machine(tmp_path, say):
    """A machine with two cards and no CUDA."""
    return Machine(tmp_path, nvidia_programs(say))


def test_without_a_gpu_driver_toolkit_and_agent_are_tried_and_those_of_cuda_say_why_not(
    machine,
):
    library = machine.driver.folder / "libvgpu.so"
    library.write_bytes((machine.driver.libraries / "libcuda.so.1").read_bytes())
    code, lines = machine.prove(f"--limiter={library}")
    assert code == 0, lines
    assert {name: line["status"] for name, line in lines.items()} == {
        **dict.fromkeys(("nvml", "cdi", "agent"), "ran"),
        **dict.fromkeys(("limiter", "shares", "usage", "xid", "throughput"), "cannot"),
    }
    whys = {line["why"].partition(":")[0] for line in lines.values() if line["status"] == "cannot"}
    assert whys == {"CUDA does not start"}
    assert [row[-2:] for row in lines["nvml"]["figures"]["gpus"]] == [["40960", "583"], ["81920", "1024"]]
    assert lines["cdi"]["figures"]["cards"] == 2
    assert "update-ldcache" in lines["cdi"]["figures"]["hooks"]
    assert lines["agent"]["figures"] == {
        "offered": {"nvidia.com/gpu-0": 8, "nvidia.com/gpu-1": 8},
        "limits": {
            "nvidia.com/gpu-0": f"{(40960 - 583) // 8}m",
            "nvidia.com/gpu-1": f"{(81920 - 1024) // 8}m",
        },
    }


def test_what_nvidia_smi_says_otherwise_fails_the_stage(machine):
    machine.tell(CARDS[0], Card(SECOND, "NVIDIA A100-SXM4-80GB", memory_mib=81559, reserved_mib=1024))
    code, lines = machine.prove("--stage=nvml")
    assert code == 1
    assert lines["nvml"]["status"] == "failed"
    assert lines["nvml"]["why"] == "GPU 1: memory.total is 81920, nvidia-smi says 81559"
    machine.tell(CARDS[0])
    assert machine.prove("--stage=nvml")[1]["nvml"]["why"] == "2 GPUs, nvidia-smi says 1"


def test_what_is_not_there_is_named(machine):
    code, lines = machine.prove(
        "--stage=nvml", "--stage=cdi", "--stage=limiter", "--nvidia-smi=no-smi", "--nvidia-ctk=no-ctk"
    )
    assert code == 0
    assert {name: line["why"] for name, line in lines.items()} == {
        "nvml": "there is no no-smi on PATH",
        "cdi": "there is no no-ctk: install NVIDIA's container toolkit",
        "limiter": "no limiter's library is named: --limiter FILE",
    }


def test_a_machine_whose_cards_are_all_in_mig_mode_is_not_tried(machine):
    divided = MigInstance("MIG-aaaaaaaa-1111-1111-1111-111111111111", 1, 3, 20096)
    machine.driver.write(NvmlNode((Card(FIRST, mig=True, instances=(divided,)),)))
    _, lines = machine.prove("--stage=agent", "--stage=usage")
    assert {line["why"] for line in lines.values()} == {"there is no GPU out of MIG mode"}
