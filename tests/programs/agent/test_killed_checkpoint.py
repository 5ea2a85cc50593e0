"""The file of prepared claims, where the agent is killed while it writes."""

import json
import os
import signal
import subprocess
import sys

from agent.dra.checkpoint import PreparedClaims

KILLED = """
import sys
from pathlib import Path
from agent.dra.checkpoint import PreparedClaims
from tests.agent.dra.test_checkpoint import CLAIM
claims = PreparedClaims(Path(sys.argv[1]), "boot-1")
print(flush=True)
while True:
    for number in range(50):
        claims.put(str(number), CLAIM)
    for number in range(50):
        claims.remove(str(number))
"""


def test_a_process_that_is_killed_at_any_moment_leaves_a_whole_file(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE)
    process.stdout.readline()
    file = tmp_path / "private" / "claims.json"
    while not file.exists() or len(json.loads(file.read_text())["content"]["claims"]) < 20:
        pass
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert PreparedClaims(tmp_path, "boot-1").is_whole
