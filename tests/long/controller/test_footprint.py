"""What the controller's process keeps in memory."""

import subprocess
import sys
from pathlib import Path

from testbed.process import WAIT_S

ROOT = Path(__file__).parents[3]


def test_a_controller_in_a_pod_does_not_load_the_kubernetes_package():
    code = (
        "import sys, controller.process; print([n for n in sys.modules if n.split('.')[0] == 'kubernetes'])"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True, timeout=WAIT_S
    )
    assert loaded.stdout.strip() == "[]"
