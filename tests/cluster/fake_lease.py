"""One Lease as an API server keeps it: with versions, and refusing what was decided on an older one."""

import json

from tests.cluster.fake_api import forever, refusal, reply


class Leading:
    leads = True


class FakeLease:
    """Answers for FakeApi's script.

    Attributes:
        stored: The Lease; None while there is none.
        reachable: Whether requests are answered at all.
        lose_answer: Whether the next write is carried out and not answered.
    """

    def __init__(self):
        self.stored = None
        self.version = 0
        self.reachable = True
        self.lose_answer = False

    def answer(self, method, body):
        if not self.reachable:
            return forever
        if method == "POST":
            return self._store(body) if self.stored is None else refusal(409)
        if self.stored is None:
            return refusal(404)
        if method == "GET":
            return reply(self.stored)
        if body["metadata"]["resourceVersion"] != self.stored["metadata"]["resourceVersion"]:
            return refusal(409)
        merged = json.loads(json.dumps(self.stored))
        merged["spec"] |= body["spec"]
        annotations = merged["metadata"]["annotations"] | body["metadata"]["annotations"]
        merged["metadata"]["annotations"] = {k: v for k, v in annotations.items() if v is not None}
        return self._store(merged)

    def _store(self, lease):
        self.version += 1
        lease["metadata"]["resourceVersion"] = str(self.version)
        self.stored = lease
        if self.lose_answer:
            self.lose_answer = False
            return refusal(500)
        return reply(lease)
