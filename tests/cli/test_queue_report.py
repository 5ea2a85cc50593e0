"""`check`: what each queue's pods get."""

from tests.cli.running import run, write

VALUES = """\
agentk8sglue:
  queues:
    half:
      templateOverrides:
        labels: {clearml-injector/fraction: "0.500"}
        resources: {limits: {nvidia.com/gpu: 1, clear.ml/fraction-1: "0.5"}}
    cpu: {}
    pair:
      templateOverrides:
        labels: {clearml-injector/fraction: "0.500"}
        annotations: {clearml-injector/gpus: "2", clearml-injector/gpu-model: "A100*"}
    large:
      templateOverrides:
        labels: {clearml-injector/gpu-memory: "6Gi"}
        annotations: {clearml-injector/gpus: "3", clearml-injector/min-gpu-memory: "200Gi"}
"""


def test_a_queue_is_reported_with_what_its_pods_get_and_with_the_limits_that_are_replaced(tmp_path):
    values = tmp_path / "values.yaml"
    values.write_text(VALUES)
    code, out, err = run("check", values)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "chart: the Enterprise ClearML agent's; the open one does not read agentk8sglue.queues",
        'queue half (values.yaml:3): label "0.500" is 4 of 8 slices, nvidia.com/gpu-<i>: 4',
        "  policy default, limiter hami-core",
        "  limits that will be replaced: nvidia.com/gpu: 1, clear.ml/fraction-1: 0.5",
        "queue cpu (values.yaml:7): no fraction label, its pods are not changed",
        'queue pair (values.yaml:8): label "0.500" is 8 slices: 4 of each of 2 nvidia.com/gpu-<i>',
        "  policy default, limiter hami-core",
        "  only GPU models A100*",
        (
            'queue large (values.yaml:12): label "6Gi" is 6144 MiB of each of 3 GPUs, on the fewest of 8'
            " slices that hold them"
        ),
        "  policy default, limiter hami-core",
        "  any GPU model, of at least 204800 MiB",
    ]


def test_a_queue_that_gives_no_share_is_said_to(tmp_path):
    queues = "kind: Queues\nqueues:\n  half: {share: none}\n"
    write(tmp_path, default="kind: Policy\nname: default\n", queues=queues)
    (tmp_path / "values").write_text(VALUES)
    code, out, _ = run("check", tmp_path / "values", "--policies", tmp_path)
    assert code == 0
    assert "share: none, its pods run without a GPU: label and GPU limits are removed" in out


MISPLACED = """\
agentk8sglue:
  queue: half
  basePodTemplate:
    annotations: {clearml-injector/fraction: "0.500"}
    labels:
      clearml-injector/gpu-modell: H100
"""


def test_a_key_of_ours_in_the_wrong_place_of_a_template_is_a_mistake_with_its_line(tmp_path):
    values = tmp_path / "values.yaml"
    values.write_text(MISPLACED)
    code, _, err = run("check", values)
    at = "agentk8sglue.basePodTemplate"
    as_label = "has no effect as an annotation: write it as a label"
    meant = "is unknown: did you mean the annotation clearml-injector/gpu-model?"
    assert code == 1
    assert err.splitlines() == [
        f'{values}:4: {at}.annotations."clearml-injector/fraction": {as_label}',
        f'{values}:6: {at}.labels."clearml-injector/gpu-modell": {meant}',
    ]


def test_a_native_request_with_our_label_is_taken_as_asked_for(tmp_path):
    write(tmp_path, default="kind: Policy\nname: default\nresources: {mode: mig}\n")
    template = (
        "labels: {clearml-injector/fraction: '0.500'}, resources: {limits: {nvidia.com/mig-3g.40gb: 1}}"
    )
    (tmp_path / "values").write_text(
        f"agentk8sglue:\n  queues:\n    q: {{templateOverrides: {{{template}}}}}\n"
    )
    code, out, err = run("check", tmp_path / "values", "--policies", tmp_path)
    assert (code, err) == (0, "")
    share = "the smallest MIG instance of at least 4 of 8 slices of its card"
    assert out.splitlines()[1:] == [
        f'queue q (values:3): label "0.500" is {share}',
        "  policy default, no limiter, as MIG instances are limited by the hardware",
        "  taken as asked for: nvidia.com/mig-3g.40gb: 1",
    ]
