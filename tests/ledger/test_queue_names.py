"""Labels that the ClearML agent makes of names of queues."""

from ledger.queue_names import sanitised


def test_labels_of_queues_are_small_with_dashes():
    assert sanitised("gpu-fraction-0_500") == "gpu-fraction-0-500"
    assert sanitised("My Queue.v2") == "my-queue-v2"
