"""A field of pods that a rule begins to read takes three files, all of them named here."""

from pathlib import Path

import pytest

from tests.changed_checkout import changed_checkout, run_python

pytestmark = pytest.mark.slow

FILES = {
    Path("webhook/admission/pod.py"): [
        ("    host_path: HostPath | None = None", "    iscsi: Present | None = None\n"),
    ],
    Path("webhook/admission/refusals.py"): [
        (
            "        if volume.host_path is None:\n",
            (
                "        if volume.iscsi is not None:\n"
                '            return Denial.of(Reason.HOST_PATH, "iscsi: remove the volume")\n'
            ),
        ),
    ],
    Path("tests/webhook/support/field_values.py"): [
        ('    "Volume.host_path":', '    "Volume.iscsi": [GONE, None, {}, {"lun": 0}],\n'),
    ],
}
"""What is added, and before what: the field, the rule that reads it, and values to try it with."""
TRY = """
from tests.webhook.support import Webhook, pod, review_of
from tests.webhook.support.field_values import VALUES
from tests.webhook.support.mutations import FIELDS, changed

assert VALUES.keys() == FIELDS.keys()
webhook, plain = Webhook(again=False), review_of(pod(volumes=[{"name": "disk"}]))
assert webhook.learn(plain)
for value in VALUES["Volume.iscsi"]:
    review = changed(plain, ("request", "object", "spec", "volumes", 0), "Volume.iscsi", value)
    print(webhook.send(review).code)
"""
"""Each pod is decided by the cache and again by the rules; the two must agree."""
DECIDED = ["injected", "injected", "host-path", "host-path"]


def tried(folder):
    """What a checkout decides for a pod with each value of the field."""
    return run_python(folder, "-c", TRY).stdout.split()


def test_a_field_that_a_rule_reads_is_three_files(tmp_path):
    assert tried(changed_checkout(tmp_path / "checkout", FILES, tests=True)) == DECIDED


@pytest.mark.parametrize("file", FILES, ids=str)
def test_no_file_can_be_left_out(tmp_path, file):
    rest = {each: additions for each, additions in FILES.items() if each != file}
    assert tried(changed_checkout(tmp_path / "checkout", rest, tests=True)) != DECIDED
