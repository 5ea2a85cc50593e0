"""`check` decides a queue's template by the rules of admission, and names the key that is to blame."""

import pytest

from tests.cli.running import run

HEAD = """\
agentk8sglue:
  queue: half
  basePodTemplate:
"""
LABEL = 'labels: {clearml-injector/fraction: "0.500"}'


@pytest.fixture
def check(tmp_path):
    """Checks an open chart's template; gives the mistakes without the file, from line 4 on."""

    def check(*lines, head=HEAD):
        values = tmp_path / "values.yaml"
        values.write_text(head + "".join(f"    {line}\n" for line in lines))
        code, _, err = run("check", values)
        assert code == bool(err)
        return [line.removeprefix(f"{values}:") for line in err.splitlines()]

    return check


@pytest.mark.parametrize(
    ("key", "rule"),
    [
        ("containerSecurityContext: {privileged: true}", "is privileged and would see every"),
        ("containerSecurityContext: {capabilities: {add: [SYS_ADMIN]}}", "SYS_ADMIN"),
        ("volumes: [{name: a}, {name: b, hostPath: {path: /dev}}]", 'volume "b": hostPath /dev'),
        ("volumeMounts: [{name: a, mountPath: /usr/local/vgpu}]", "mounts /usr/local/vgpu"),
        ("env: [{name: LD_PRELOAD, valueFrom: {}}]", "LD_PRELOAD comes from valueFrom"),
        ("env: [{name: A, value: 1}]", "cannot be read: Expected `str | null`, got `int`"),
        ("hostPID: true", "hostPID gives access"),
        (
            "initContainers: [{name: i, securityContext: {privileged: true}, resources: {limits: {GPU: 1}}}]",
            '"i"',
        ),
        ('annotations: {clearml-injector/gpus: "99"}', "use a whole number"),
        ("annotations: {cdi.k8s.io/a: b}", "injects devices in addition to the share"),
    ],
)
def test_what_admission_would_deny_is_reported_at_the_key_that_is_to_blame(check, key, rule):
    [problem] = check(LABEL, key.replace("GPU", "nvidia.com/gpu"))
    name = key.split(":")[0]
    assert problem.startswith(f"5: agentk8sglue.basePodTemplate.{name}: "), problem
    assert rule in problem


def test_every_denial_is_reported_and_each_once(check):
    found = check(
        LABEL,
        "hostPID: true",
        "containerSecurityContext: {privileged: true}",
        "resources: {limits: {nvidia.com/gpu: 3}}",
        "volumes:",
        "- {name: a, hostPath: {path: /dev}}",
        "- {name: b, hostPath: {path: /proc}}",
    )
    assert [problem.partition(":")[0] for problem in found] == ["5", "6", "7", "8"]


def test_what_the_charts_allow_is_fine_and_so_is_a_container_that_the_agent_names(check):
    assert not check(
        LABEL,
        "annotations: {clearml-injector/container: clearml-task, team: a}",
        "resources: {limits: {nvidia.com/gpu: 1, memory: 8Gi, cpu: 1.5}}",
        "env: [{name: A, value: b}, {name: B, valueFrom: {secretKeyRef: {name: a, key: b}}}]",
        "volumes: [{name: a, nfs: {server: s, path: /var}}]",
        "volumeMounts: [{name: a, mountPath: /data}]",
        "fileMounts: [{name: a.txt, folderPath: /mnt/, fileContent: text}]",
        "podSecurityContext: {runAsUser: 1000}",
        "containerSecurityContext: {}",
        "initContainers: [{name: i, image: busybox, command: [sh]}]",
        "priorityClassName:",
        "nodeSelector: {pool: gpu}",
        "hostNetwork: true",
    )


QUEUES = """\
agentk8sglue:
  basePodTemplate: {hostPID: true, env: [{name: A, value: 1}]}
  queues:
    half:
      templateOverrides:
        labels: {clearml-injector/fraction: "0.500"}
        env: [{name: A, value: b}]
"""


def test_a_denial_is_reported_in_the_template_that_has_the_key(check):
    [problem] = check(head=QUEUES)
    assert problem.startswith("2: agentk8sglue.basePodTemplate.hostPID: hostPID gives access")
