"""What an earlier review wrote is known by its content, to the last field: else it is written again."""

import copy

import pytest

from tests.webhook.support import CACHE, LIBRARY, container, named, reviewed
from tests.webhook.support.limiter_parts import check_again, check_limiter, with_gpu_init

VOLUME = "gpu-limiter-library"
CACHE_VOLUME = "gpu-limiter-cache-train"


def mount(spec, name=VOLUME):
    return named(spec["containers"][0]["volumeMounts"], name)


def user(**fields):
    return container("other", **fields)


IN_CACHE = {"name": CACHE_VOLUME, "mountPath": "/x"}
WRITES = {"volumeMounts": [{"name": VOLUME, "mountPath": "/x"}]}
READS = {"volumeMounts": [{"name": VOLUME, "mountPath": "/x", "readOnly": True}]}
FOLDER = {"volumeMounts": [{"name": VOLUME, "mountPath": "/x", "readOnly": True, "subPath": "libvgpu.so"}]}


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: mount(spec).update(readOnly=False),
        lambda spec: mount(spec).update(subPath="empty"),
        lambda spec: spec["initContainers"].append(user(**WRITES)),
        lambda spec: spec["initContainers"].insert(0, user(**WRITES)),
        lambda spec: spec["initContainers"].insert(0, user(**READS)),
        lambda spec: spec["initContainers"].insert(0, user(**FOLDER)),
        lambda spec: spec["initContainers"].insert(0, user(**WRITES, restartPolicy="Always")),
        lambda spec: spec["containers"].append(user(**WRITES)),
        lambda spec: spec["containers"].append(user(**READS)),
        lambda spec: spec["containers"].append(user(volumeDevices=[{"name": VOLUME, "devicePath": "/x"}])),
        lambda spec: spec["containers"][0]["volumeMounts"].append({"name": VOLUME, "mountPath": "/x"}),
        lambda spec: named(spec["volumes"], VOLUME)["emptyDir"].update(sizeLimit="1Ki"),
        lambda spec: named(spec["volumes"], VOLUME)["emptyDir"].update(medium="Memory"),
        lambda spec: spec["volumes"].remove(named(spec["volumes"], VOLUME)),
        lambda spec: spec["initContainers"].pop(0),
        lambda spec: spec["initContainers"].append(spec["initContainers"].pop(0)),
    ],
)
def test_a_library_that_is_not_as_we_wrote_it_is_not_taken_for_ours(change):
    webhook, injected = reviewed(with_gpu_init())
    change(injected["spec"])
    check_again(injected, webhook, 1)


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: mount(spec).update(name="data"),
        lambda spec: mount(spec, CACHE_VOLUME).update(readOnly=True),
        lambda spec: mount(spec, CACHE_VOLUME).update(subPath="shared"),
        lambda spec: mount(spec, CACHE_VOLUME).update(name="data"),
        lambda spec: mount(spec, CACHE_VOLUME).update(name="gpu-limiter-cache-warm"),
        lambda spec: named(spec["volumes"], CACHE_VOLUME)["emptyDir"].update(medium="Memory"),
        lambda spec: spec["initContainers"].insert(0, user(volumeMounts=[IN_CACHE])),
        lambda spec: spec["containers"].append(user(volumeMounts=[{**IN_CACHE, "readOnly": True}])),
    ],
)
def test_a_mount_that_shows_something_else_is_put_back(change):
    """Nobody else may fill the cache: the library believes the limits in its accounting file."""
    webhook, injected = reviewed(with_gpu_init())
    change(injected["spec"])
    check_again(injected, webhook, 0)


def places_of_ours(spec):
    """Every object and list that we wrote, and what it contains."""
    ours = [spec["initContainers"][0], *[each for each in spec["volumes"] if each["name"] != "data"]]
    ours += [each for each in spec["containers"][0]["volumeMounts"] if each["name"] != "data"]
    while ours:
        holder = ours.pop()
        for key, value in [*(holder.items() if isinstance(holder, dict) else enumerate(holder))]:
            yield holder, key
            ours += [value] if isinstance(value, dict | list) else []


@pytest.mark.parametrize("value", [None, "", "x", 0, True, [], {}, ["x"], {"name": "x"}, "gone", "doubled"])
def test_whatever_is_changed_of_ours_our_exact_limiter_is_in_effect(value):
    webhook, clean = reviewed(with_gpu_init())
    allowed = 0
    for number in range(len([*places_of_ours(clean["spec"])])):
        changed = copy.deepcopy(clean)
        holder, key = [*places_of_ours(changed["spec"])][number]
        if value == "gone":
            del holder[key]
        elif value != "doubled":
            holder[key] = value
        elif isinstance(holder, list):
            holder.append(holder[key])
        else:
            holder["x-future"] = holder[key]
        again = webhook.decide(changed, dryRun=True)
        if again.allowed:
            allowed += 1
            check_limiter(again.stored)
        else:
            assert again.code in {"duplicate-name", "mount-path", "unreadable-object"}, again.message
    assert allowed >= 20


@pytest.mark.parametrize("place", [LIBRARY, CACHE])
@pytest.mark.parametrize(("path", "count"), [("{}", 2), ("{}/", 1), ("/{}", 1), ("{}/libvgpu.so", 1)])
def test_a_second_mount_where_the_limiter_goes_is_denied(place, path, count):
    """A mount of our own volume too: below a subPath that does not exist, the library is an empty folder."""
    webhook, injected = reviewed()
    extra = {"name": VOLUME, "mountPath": path.format(place), "subPath": "x", "readOnly": True}
    injected["spec"]["containers"][0]["volumeMounts"] += [extra] * count
    assert webhook.decide(injected).code == "mount-path"
