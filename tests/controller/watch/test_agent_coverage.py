"""Which nodes the agent's DaemonSet covers."""

import json

from controller.watch.agent_coverage import read_agent_pods
from kube.scheduling import Taint

OURS = Taint("clearml-injector.io/agent-not-ready", "NoSchedule")
OTHER = Taint("dedicated", "NoSchedule", "gpu")


def covers(pods, *taints, **labels):
    return read_agent_pods(pods).covers("n", labels, taints)


def test_the_daemon_set_covers_what_its_pods_select_and_tolerate():
    pods = '{"nodeSelector":{"gpu":"yes"},"tolerations":[{"key":"dedicated","operator":"Exists"}]}'
    assert covers(pods, OTHER, OURS, gpu="yes")
    assert not covers(pods, gpu="no")
    assert not covers(pods, Taint("else", "NoSchedule"), gpu="yes")


def test_affinity_takes_nodes_out():
    term = {"matchExpressions": [{"key": "mig", "operator": "DoesNotExist"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pods = json.dumps({"affinity": {"nodeAffinity": required}})
    assert covers(pods)
    assert not covers(pods, mig="all")
