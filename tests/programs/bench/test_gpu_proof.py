"""The proof on a GPU, rehearsed over NVIDIA's toolkit and stand-ins for NVML, CUDA and a limiter."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.gpu.__main__ import STAGES
from testbed import building
from testbed.nvidia import library
from testbed.nvidia.cards import LIMITS_OFFERED, Card, NvmlNode
from testbed.nvidia.driver_root import DriverRoot
from tests.agent.support.nvidia import nvidia_programs
from tests.product import PACKAGES, ROOT

FIRST, SECOND = "GPU-11111111-1111-1111-1111-111111111111", "GPU-22222222-2222-2222-2222-222222222222"
CARDS = (
    Card(FIRST, memory_mib=40960, reserved_mib=583),
    Card(SECOND, "NVIDIA A100-SXM4-80GB", minor=1, memory_mib=81920, reserved_mib=1024),
)
SHARE = (40960 - 583) // 8
PYTHON = next(Path(sys.base_prefix, "bin").glob("python3"))
"""Without the environment of this checkout, whose packages it gets as wheels beside it."""
WHEELS = next(path for path in sys.path if path.endswith("site-packages"))
CRASHES = "#include <unistd.h>\n__attribute__((constructor)) static void end(void) { _exit(3); }\n"
SMI = """#!{}
import pathlib, sys
import pynvml
if sys.argv[1].startswith("--query-gpu="):
    sys.exit(print(pathlib.Path("{}").read_text()))
pynvml.nvmlInit()
for process in pynvml.nvmlDeviceGetComputeRunningProcesses(pynvml.nvmlDeviceGetHandleByIndex(0)):
    print(process.pid, process.usedGpuMemory // 2**20, sep=", ")
"""


class Machine:
    """A bare copy of the tree, a driver's files, NVIDIA's generator, and a stand-in for nvidia-smi."""

    def __init__(self, folder, programs):
        self.tree, self._folder = folder / "tree", folder
        for package in (*PACKAGES, "bench"):
            shutil.copytree(ROOT / package, self.tree / package, ignore=shutil.ignore_patterns("__pycache__"))
        self.driver = DriverRoot(folder / "driver", NvmlNode(CARDS, limits=LIMITS_OFFERED))
        self.ctk = programs.ctk
        self.limiter = library.build(library.LIMITER)
        self.smi = folder / "nvidia-smi"
        self.smi.write_text(SMI.format(PYTHON, folder / "gpus.csv"))
        self.smi.chmod(0o755)
        self.cgroups = folder / "cgroups"
        self.cgroups.mkdir()
        (self.cgroups / "cgroup.controllers").touch()
        self.tell(*CARDS)

    def tell(self, *cards):
        """Have nvidia-smi say that these cards are there."""
        rows = [
            f"{index}, {card.uuid}, {card.name}, {card.memory_mib}, {card.reserved_mib}\n"
            for index, card in enumerate(cards)
        ]
        (self._folder / "gpus.csv").write_text("".join(rows))

    def crash(self, file):
        """Put a library there that ends each process which loads it."""
        source = self._folder / "crash.c"
        source.write_text(CRASHES)
        file.unlink()
        building.run(*library.COMPILER, "-o", str(file), str(source))

    def prove(self, *stages, **more):
        """Run the command to its end in an empty environment; its exit status, and its lines by stage."""
        given = {
            "limiter": self.limiter,
            "driver-root": self.driver.folder,
            "nvidia-smi": self.smi,
            "nvidia-ctk": self.ctk,
            "cgroups": self.cgroups,
            "seconds": 0.2,
        } | {name.replace("_", "-"): value for name, value in more.items()}
        options = [f"--{name}={value}" for name, value in given.items()]
        ended = subprocess.run(
            [PYTHON, "-m", "bench.gpu", *options, *[f"--stage={stage}" for stage in stages]],
            cwd=self.tree,
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": WHEELS, **self.driver.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        machine, *lines = [json.loads(line) for line in ended.stdout.splitlines()]
        assert machine["product"], ended.stderr
        return ended.returncode, {line["stage"]: line for line in lines}


@pytest.fixture
def machine(tmp_path, say):
    return Machine(tmp_path, nvidia_programs(say))


def by_status(lines):
    return {
        status: [name for name, line in lines.items() if line["status"] == status]
        for status in ("ran", "cannot", "failed")
    }


def test_every_stage_has_a_figure_from_a_bare_copy_of_the_tree_in_an_empty_environment(machine):
    code, lines = machine.prove()
    assert by_status(lines) == {"ran": list(STAGES), "cannot": [], "failed": []}, lines
    assert code == 0
    found = {name: line["figures"] for name, line in lines.items()}
    assert [row[-2:] for row in found["nvml"]["gpus"]] == [["40960", "583"], ["81920", "1024"]]
    assert found["cdi"]["cards"] == 2
    assert found["agent"]["offered"] == {"nvidia.com/gpu-0": 8, "nvidia.com/gpu-1": 8}
    assert found["agent"]["limits"] == {
        "nvidia.com/gpu-0": f"{SHARE}m",
        "nvidia.com/gpu-1": f"{(81920 - 1024) // 8}m",
    }
    assert found["limiter"]["preloaded_by"] == "/etc/ld.so.preload"
    assert found["limiter"]["held_mib"]["cuMemAlloc"] == 1024
    assert found["accuracy"][str(SHARE)] == {
        "held_mib": SHARE,
        "program_sees_mib": SHARE,
        "used_mib": SHARE + 256,
        "context_mib": 256,
        "over_percent": round(25600 / SHARE, 2),
        "counts_context": False,
    }
    assert found["escapes"] == {
        "limit_mib": 1024,
        "none": 1024,
        "LD_PRELOAD empty": 1024,
        "its own limit": 2048,
        "no limit": 2048,
    }
    # The stand-in counts no context, for which eight full shares leave no room.
    assert sum(found["shares"]["of_usable"]["held_mib"]) == 40960 - 583 - 8 * 256
    assert (found["tenants"]["other"]["refused"], found["tenants"]["beside"]["further_mib"]) == (
        1000,
        SHARE // 10,
    )
    assert set(found["overhead"]) >= {"launches", "memset"}
    assert found["startup"]["last_of_eight_s"] > 0
    assert set(found["throughput"]["sum_to_one_sharer"]) == {"1", "2", "4", "8"}
    assert found["driver_limits"]["held_mib"] == 1024 - 256
    assert (found["xid"]["xid"], found["xid"]["unhealthy"]) == (31, None)


def test_stages_fail_with_a_line_of_their_own_where_driver_toolkit_and_agent_are_broken(machine):
    machine.tell(CARDS[0], Card(SECOND, "NVIDIA A100-SXM4-80GB", memory_mib=81559, reserved_mib=1024))
    machine.crash(machine.driver.libraries / "libcuda.so.1")
    (machine.tree / "cli" / "main.py").write_text("raise SystemExit('this agent is broken')\n")
    stages = "nvml", "cdi", "agent", "limiter", "throughput"
    code, lines = machine.prove(*stages, nvidia_ctk="/bin/false")
    assert (code, by_status(lines)) == (1, {"ran": [], "cannot": [], "failed": list(stages)})
    assert lines["nvml"]["why"] == "GPU 1: memory.total is 81920, nvidia-smi says 81559"
    assert "/bin/false cdi generate failed" in lines["cdi"]["why"]
    assert "this agent is broken" in lines["agent"]["why"]
    assert "ended with 3" in lines["throughput"]["why"]
