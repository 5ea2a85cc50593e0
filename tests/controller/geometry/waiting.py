"""Pods that wait, and nodes, as the selection among them sees them."""

import hashlib

import msgspec

from controller.geometry.feasibility import NodeOffer
from controller.watch.mig_facts import MigPod
from controller.watch.resources import SeenPod
from kube.scheduling import Constraints, NodeSelectorTerm, Requirement
from modes.facts import PodFact
from modes.mig_profiles import A100_40GB

NO_CONSTRAINTS = Constraints()


def pod(name, profile="3g.20gb", count=1, **more):
    return pod_of(name, ((profile, count),), **more)


def pod_of(name, wants, *, created="", constraints=NO_CONSTRAINTS, **fact):
    digest = hashlib.sha256(msgspec.json.encode(constraints)).digest()
    mig = MigPod(f"uid-{name}", created, wants, waits=True, constraints=constraints, digest=digest)
    return SeenPod(PodFact(name=name, **{"namespace": "team", **fact}), None, mig=mig)


def asking(key, *values):
    """Constraints of a pod that wants a label of its node to have one of these values."""
    return Constraints(required_terms=(NodeSelectorTerm((Requirement(key, "In", values),)),))


def offer(name="n0", cards=1, cpu=64_000, **labels):
    return NodeOffer(name, A100_40GB, cards, labels, (), cpu, 2**38)
