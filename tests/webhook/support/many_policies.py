"""Policies that differ in everything that becomes part of a patch, and a ledger that always has room."""

from ledger.placement_request import Placement, Unschedulable
from modes.registry import INSTANCE_MODE, MODES
from tests.webhook.support import policies

QUEUES = """
kind: Queues
queues:
  large: {id: id-1, namespaces: [team], limiter: none}
"""
EVERYTHING = r"""
tolerations: [{key: gpu, operator: Equal, value: "", effect: NoSchedule}, {operator: Exists}]
runtimeClassName: nvidia
privileged: any-container
env: {WHERE: "{namespace}/{container}/{container}", SHARE: "100% %b %s {percent}%", QUOTED: "\"é\\'"}
"""
IMAGES = """
kind: Limiter
name: images
image: {pattern: "[a-z]+:([0-9]+)", choices: {"small:1": 1024, "large:8": 8192}}
"""
HOST_PID = """
kind: Limiter
name: host-pid
hostPID: true
env: {MEMORY: "{memory_mib} of {container}"}
"""
ALLOWS = """
allow:
  hostPaths: [/etc/kubernetes, /var/lib/kubelet, /dev/infiniband]
  capabilities: [SYS_ADMIN]
  overrideEnv: true
  resources: [nvidia.com/hostdev]
  hostIPC: true
  deviceClasses: [rdma.example.com]
protectedHostPaths: [/opt/agent]
"""
POLICIES = {
    "default": policies(),
    "queues": policies(queues=QUEUES),
    "spread": policies("place: spread"),
    "any GPU": policies("containers: any-gpu"),
    "same model": policies("sameModel: true\nlimiter: none"),
    "pooled": policies("resources: {mode: pooled, name: example.com/pool}"),
    "limits from agent": policies("limits: {from: agent}"),
    "limits from agent, with variables": policies(
        "limits: {from: agent}\nresources: {mode: pooled}\nsameModel: true\nenv: {A: '{percent} {container}'}"
    ),
    "mig": policies("resources: {mode: mig}\nenv: {A: '{percent} {container}'}"),
    "both": policies("resources: {prefer: [mig, per-gpu]}"),
    "none": policies("limiter: none"),
    "clearml-image": policies("limiter: clearml-image"),
    "own images": policies("limiter: images", images=IMAGES),
    "nvidia-driver": policies("limiter: nvidia-driver"),
    "host PID": policies("limiter: host-pid", pid=HOST_PID),
    "everything": policies(EVERYTHING),
    "allows": policies(ALLOWS),
    "hides nothing": policies("hideGpusFromOthers: false\nmemory: {reserveMiB: 100}"),
    "no memory left": policies("memory: {reserveMiB: 100000}"),
    "quotas": policies("quotas: {namespaces: {team: {slices: 8}}, queues: {large: {maxPods: 1}}}"),
    "by name": policies("container: {names: ['clearml-id-*', '*0?']}"),
    "assume": policies("assume: {gpusPerNode: 4, gpuMemoryMiB: 81920}"),
    "rounded up": policies('fractions: {"0.500": 4, "0.2": 2, "0.95": 8}'),
    "whole GPUs": policies('fractions: {"0.500": 4, "1.000": 8, "2": 16}'),
}

PLACES = (
    (0, 81920, "gpu-1", ("81920", "81921")),
    (7, 81920, "gpu-1", ("81920", "81921")),
    (7, 40960, "gpu-1", ("40960", "40961")),
    (7, 40960, None, ("40960", "40961")),
    (7, 40960, None, ("40960",)),
)
"""Each differs from the one before it in one thing that a patch depends on, or in the memory of its GPU."""

OFFERS = [
    [("NVIDIA-A100-SXM4-80GB", (21020, 41040, 61080, 141160))],
    [("NVIDIA-A100-SXM4-80GB", (61080, 141160)), ("NVIDIA-H100-80GB-HBM3", (61080, 141160))],
    [("NVIDIA-H100-80GB-HBM3-MIG-7g.80gb", (None,))],
]
"""Of MIG instances: of 1g.10gb, 2g.20gb, 3g.40gb and 7g.80gb, and the pool of a node of strategy `single`."""
INSTANCE_TYPE = MODES[INSTANCE_MODE]
MODELS = ("NVIDIA-H100", None, 'n"%b')


class Roomy:
    """A placer that has room for every pod, in the places given to it, in turn."""

    def __init__(self, *places):
        self._places = places or PLACES[:1]
        """Each: first GPU index, MiB of a GPU, node, values of the node's memory label."""
        self._placed = 0

    def place(self, ask):
        index, mib, node, values = self._places[self._placed % len(self._places)]
        self._placed += 1
        fraction = ask.share.fraction
        if ask.share.mode == "mig" or (ask.demands.prefer and self._placed % 2):
            offers = OFFERS[self._placed % len(OFFERS)]
            found = INSTANCE_TYPE.instances(fraction, offers, ask.demands.resource)
            if not found:
                return Unschedulable("no instance holds it")
            instance = found[0]
            return Placement(
                instance.indices, instance.mib, (), node, ask.accounting.reservation, instance=instance
            )
        indices = () if ask.share.mode == "pooled" else tuple(range(index, index + fraction.gpus))
        if ask.demands.assume is not None:
            mib, values = ask.demands.assume.gpu_mib, ()
        elif ask.demands.same_model:
            values = (str(mib),)
        if not ask.share.is_bound_by_memory:
            values = ()
        model = MODELS[self._placed % len(MODELS)] if ask.demands.same_model else None
        return Placement(indices, mib, values, node, ask.accounting.reservation, model)

    def release(self, _reservation):
        """There is always room."""
