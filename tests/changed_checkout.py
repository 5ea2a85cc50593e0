"""A copy of the product with a few lines more, to see how many files a change takes."""

import os
import shutil
import subprocess
import sys

from tests.product import ROOT


def changed_checkout(folder, changes, *, tests=False):
    """Copy the product and add text to its files.

    Args:
        folder: where the copy goes.
        changes: for each file, the texts to add, each after the text that it precedes; a file that does not
            exist gets one text, before "".
        tests: whether the tests are copied too.
    """
    packages = [each.parent.name for each in ROOT.glob("*/__init__.py")]
    left_out = {"testbed", "bench"} if tests else {"tests", "testbed", "bench"}
    for name in {"charts", *packages} - left_out:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file, additions in changes.items():
        for before, added in additions:
            text = (folder / file).read_text() if before else ""
            assert text.count(before) == 1, (file, before)
            (folder / file).write_text(text.replace(before, added + before))
    return folder


def run_python(folder, *arguments):
    """Run a program of that checkout."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "NO_COLOR": "1", "COLUMNS": "200"}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
