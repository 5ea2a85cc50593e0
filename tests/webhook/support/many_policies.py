"""Policies that differ in everything that becomes part of a patch, and a ledger that always has room."""

from ledger.placement_request import Placement
from modes.instance import Instance
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
WITHOUT_KEYS = {"clearml-image", "own images"}
"""Their rules look at the image."""

PLACES = (
    (0, 81920, "gpu-1", ("81559", "81920")),
    (7, 81920, "gpu-1", ("81559", "81920")),
    (7, 40960, "gpu-1", ("81559", "81920")),
    (7, 40960, None, ("81559", "81920")),
    (7, 40960, None, ()),
)
"""Each differs from the one before it in one thing that a patch depends on."""

INSTANCES = (
    Instance(21020, 1, 9728, ("NVIDIA-A100-SXM4-80GB",)),
    Instance(41040, 2, 19968, ("NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3")),
    Instance(61080, 4, 40192, ("NVIDIA-H100-80GB-HBM3-MIG-3g.40gb",), is_pool=True),
)
MODELS = ("NVIDIA-H100", None, 'n"%b')


class Roomy:
    """A placer that has room for every pod, in the places it is told of, in turn."""

    def __init__(self, *places):
        self._places = places or PLACES[:1]
        """Each: first GPU index, MiB of a GPU, node, values of the node's memory label."""
        self._placed = 0

    def place(self, ask):
        index, mib, node, values = self._places[self._placed % len(self._places)]
        self._placed += 1
        fraction = ask.fraction
        if ask.mode == "mig" or (ask.prefer and self._placed % 2):
            instance = INSTANCES[self._placed % len(INSTANCES)]
            return Placement(instance.indices, instance.mib, (), node, ask.reservation, instance=instance)
        indices = () if ask.mode == "pooled" else tuple(range(index, index + fraction.gpus))
        if ask.assume is not None or fraction.is_whole:
            values = ()
        model = MODELS[self._placed % len(MODELS)] if ask.same_model else None
        return Placement(indices, mib, values, node, ask.reservation, model)

    def release(self, _reservation):
        """There is always room."""
