"""The short process of certs.apart: one call in, its answer out, by pipes."""

import gc
import pickle
import sys
from importlib import import_module
from typing import Any

from certs.pair import CertificateError


def main() -> None:
    """Call the function that standard input names, and write what it returns, or why it refuses."""
    gc.disable()  # the process ends before garbage could matter
    module, function, arguments = pickle.load(sys.stdin.buffer)  # noqa: S301  our parent wrote it
    wanted: Any = getattr(import_module(module), function)
    try:
        answer = wanted(*arguments)
    except CertificateError as error:
        answer = error
    pickle.dump(answer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
