"""What we add gets names of its own, whatever names the pod brings."""

from tests.webhook.support import container, decide, pod
from webhook.admission.free_names import FreeNames


def test_names_that_are_taken_are_numbered():
    volumes = [
        {"name": name, "emptyDir": {}}
        for name in ("gpu-limiter-library", "gpu-limiter-library-2", "gpu-limiter-cache-train")
    ]
    decided = decide(pod(volumes=volumes, initContainers=[container("gpu-limiter")]))
    assert [volume["name"] for volume in decided.spec["volumes"][3:]] == [
        "gpu-limiter-library-3",
        "gpu-limiter-cache-train-2",
    ]
    ours = decided.spec["initContainers"][0]
    assert ours["name"] == "gpu-limiter-2"
    assert ours["volumeMounts"] == [{"name": "gpu-limiter-library-3", "mountPath": "/usr/local/vgpu"}]


def test_a_volume_that_a_container_mounts_without_having_it_is_not_supplied_by_us():
    overwriting = container("evil", volumeMounts=[{"name": "gpu-limiter-library", "mountPath": "/x"}])
    decided = decide(pod(initContainers=[overwriting]))
    assert decided.spec["volumes"][0]["name"] == "gpu-limiter-library-2"


def test_a_regular_container_of_our_name_makes_the_init_container_step_aside():
    decided = decide(pod(containers=[container("gpu-limiter")]))
    assert decided.spec["initContainers"][0]["name"] == "gpu-limiter-2"


def test_derived_names_have_at_most_63_characters_and_differ():
    long = "a" * 60
    gpu = {"nvidia.com/gpu": "1"}
    found = pod(containers=[container(long + "xyz")], initContainers=[container(long + "xya", limits=gpu)])
    names = [volume["name"] for volume in decide(found).spec["volumes"]]
    assert [len(name) for name in names] == [19, 63, 63]
    assert len(set(names)) == 3


class Counted(set):
    """A set that counts the questions it is asked."""

    asked = 0

    def __contains__(self, name):
        self.asked += 1
        return super().__contains__(name)


def test_a_free_name_is_found_by_as_many_questions_as_names_are_taken_in_all():
    taken = Counted({"cache", *(f"cache-{number}" for number in range(2, 1000))})
    names = FreeNames(taken)
    given = [names.take("cache") for _ in range(1000)]
    assert given == [f"cache-{number}" for number in range(1000, 2000)]
    assert taken.asked <= 3000
