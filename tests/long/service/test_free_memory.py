"""What malloc keeps of a flood goes back to the system."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

MIB = 1 << 20
CHECKOUT = Path(__file__).parents[3]
FLOOD = """
from pathlib import Path

from service.http.serving import give_back

def resident():
    return int(Path("/proc/self/statm").read_bytes().split()[1]) * 4096

blocks = [bytearray(size) for _ in range(1000) for size in (100_000, 1000)]
kept = blocks[1::2]
del blocks
before = resident()
give_back()
print(before - resident())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="a malloc that cannot give back")
def test_free_blocks_between_used_ones_go_back():
    # In a process of its own: how malloc laid out what other tests left behind decides how much is free.
    ended = subprocess.run(
        [sys.executable, "-c", FLOOD], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    assert int(ended.stdout) > 50 * MIB
