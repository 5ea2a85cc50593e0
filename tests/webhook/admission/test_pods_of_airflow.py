"""docs/operating/other-systems.md on Airflow: a pod with an XCom sidecar, what gives the task its share."""

import re

from tests.webhook.support import POLICIES, container, decide, pod, policies

DOCUMENT = POLICIES.parent / "docs" / "operating" / "other-systems.md"
SECTION = DOCUMENT.read_text().partition("\n## Airflow\n")[2].partition("\n## ")[0]
MOUNT = {"name": "xcom", "mountPath": "/airflow/xcom"}


def task(annotations=None, limits=None):
    """A pod as KubernetesPodOperator of apache-airflow-providers-cncf-kubernetes makes it."""
    base = container("base", limits=limits, volumeMounts=[MOUNT], env=[], envFrom=[])
    sidecar = container(
        "airflow-xcom-sidecar",
        image="alpine",
        command=["sh", "-c", 'trap "exit 0" INT; while true; do sleep 1; done;'],
        resources={"requests": {"cpu": "1m", "memory": "10Mi"}},
        volumeMounts=[MOUNT],
    )
    labels = {"dag_id": "train", "task_id": "fit", "run_id": "manual", "kubernetes_pod_operator": "True"}
    metadata = {"name": "fit-h3k2j5x8", "annotations": annotations or {}}
    made = pod(containers=[base, sidecar], labels=labels, volumes=[{"name": "xcom", "emptyDir": {}}])
    return {**made, "metadata": {**made["metadata"], **metadata}}


def check(decided):
    """See that the task has the share, and its sidecar nothing of it."""
    assert decided.annotations["clearml-injector/gpu-container"] == "base"
    assert decided.container("base")["resources"]["limits"] == {"nvidia.com/gpu-0": "4"}
    assert decided.env("airflow-xcom-sidecar") == [("NVIDIA_VISIBLE_DEVICES", "void")]
    assert decided.container("airflow-xcom-sidecar")["volumeMounts"] == [MOUNT]


def with_sidecar_of_the_user(**fields):
    made = task(**fields)
    made["spec"]["containers"].append(container("proxy"))
    return made


def test_the_label_alone_gives_the_share_to_the_task_unless_the_user_adds_a_sidecar():
    check(decide(task()))
    decided = decide(with_sidecar_of_the_user())
    assert decided.message.endswith("clearml-injector/container (base, proxy)")


def test_the_annotation_the_resources_or_the_policy_of_the_document_is_enough():
    [line] = re.findall(r"annotations=\{(.*)\}", SECTION)
    name, value = re.findall(r'"([^"]*)"', line)
    check(decide(with_sidecar_of_the_user(annotations={name: value})))
    [(name, amount)] = re.findall(r"the limit `(nvidia\.com/gpu): (\d)`", SECTION)
    check(decide(with_sidecar_of_the_user(limits={name: amount})))
    [text] = re.findall(r"```yaml\n(.*?)```", SECTION, re.DOTALL)
    check(decide(with_sidecar_of_the_user(), policies(text)))
