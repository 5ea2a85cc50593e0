"""Runs a review to its end, and takes its answer apart."""

import base64
import json


def finish(coroutine):
    """Run a review whose placer never waits, without an event loop: it ends at once."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("the review waits")


def readable(reply):
    """A reply with its patch decoded."""
    found = json.loads(reply)
    patch = found["response"].get("patch")
    if patch is not None:
        found["response"]["patch"] = json.loads(base64.b64decode(patch))
    return found
