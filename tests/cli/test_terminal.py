"""Nothing that a file or a cluster holds reaches the terminal as more than letters."""

import json
import re

import pytest

from cli.ledger_table import lines
from ledger.view import GpuView, Holding, LedgerView, NodeView, PendingView
from policies.model.problems import printable
from tests.cli.running import INVENTORY, run
from tests.webhook.support import container, pod

EVIL = "x\x1b]0;owned\x07\x1b[31m\x9b2J\u202e\r\x00"
"""A window's title, a colour, a cleared screen, letters turned round, a line begun again."""


def assert_harmless(text):
    found = {each for each in text if not each.isprintable() and each != "\n"}
    assert found == set()


def evil_pod(**changes):
    labels = {"clearml-injector/fraction": "0.500", **changes.pop("labels", {})}
    found = pod(containers=[container(name=EVIL, image=EVIL)], metadata={"name": EVIL, "labels": labels})
    return json.dumps({**found, **changes})


@pytest.mark.parametrize(
    "text",
    [
        evil_pod(),
        evil_pod(labels={"clearml-injector/fraction": EVIL}),
        evil_pod(labels={EVIL: EVIL}),
        evil_pod(kind=EVIL),
        evil_pod(apiVersion=5),
        json.dumps({"kind": "Pod", "metadata": {"name": [EVIL]}}),
        json.dumps({"kind": "AdmissionReview", "request": {"uid": EVIL, "object": EVIL}}),
        "kind: Pod\n? {a: b}\n: c",
        "kind: Pod\nx: !<" + "\\x1b" + ">",
    ],
)
@pytest.mark.parametrize("output", ["text", "json"])
def test_explain(text, output):
    assert_harmless(run("explain", "-", "--inventory", INVENTORY, "--output", output, text=text).output)


def test_the_ledger():
    gpus = (GpuView(0, 8, (Holding(EVIL, EVIL, "holder", 4),)),)
    view = LedgerView(
        (NodeView(EVIL, usable=True, slices_per_gpu=8, gpu_mib=1, product=EVIL, gpus=gpus),),
        (PendingView(EVIL, EVIL, "pod", (0,), 8),),
    )
    ours = re.compile(r"\x1b\[(3[0-9]|90|0)m")
    for wide in (False, True):
        assert_harmless(ours.sub("", "\n".join(lines(view, wide=wide))))


def test_what_is_printable_stays():
    assert printable("a ä 漢 😀") == "a ä 漢 😀"
    assert printable(EVIL) == "x\\x1b]0;owned\\x07\\x1b[31m\\x9b2J\\u202e\\r\\x00"
    assert printable("\ud800\n") == "\\ud800\\n"
