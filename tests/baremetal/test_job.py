"""What is started for a task."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from agent.policy_compiler import part_for_nodes
from agent.shares import RefusedError
from baremetal.job import MARK, ShareLimits, process_job, shares
from tests.baremetal.support.machine import cards, policy, submission, task

LIBRARY = "/usr/local/vgpu/libvgpu.so"
PART = part_for_nodes(replace(policy(), limits_from="agent"))
CARDS = cards(3)


def limits(library=LIBRARY, part=PART):
    return ShareLimits(part, policy().limiter, library)


def env_of(given, limits, **own):
    given = msgspec.structs.replace(given, submission=submission(given.submission.queue, env=own))
    job = process_job(given, shares(given, CARDS, limits.policy), limits, "box/1/1", Path("/state/1/1"))
    assert job.cleanup == ()
    return job.env


def test_a_process_sees_its_cards_by_number_in_the_order_of_the_driver():
    env = env_of(task(indices=(0, 2), slices=8), limits())
    assert env == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "0,2",
        "NVIDIA_VISIBLE_DEVICES": "0,2",
        "PWD": "/",
        MARK: "box/1/1",
    }


def test_a_share_is_limited_to_its_memory_with_accounts_of_its_own():
    env = env_of(task(indices=(1,), slices=4), limits())
    assert env["CUDA_DEVICE_MEMORY_LIMIT_0"] == "20480m"
    assert env["CUDA_DEVICE_MEMORY_SHARED_CACHE"] == "/state/1/1/cache/gpu.cache"
    assert (env["LD_PRELOAD"], env["CUDA_REDIRECT"]) == (LIBRARY, LIBRARY)


def test_a_users_preloaded_library_stays_and_comes_second():
    assert env_of(task(), limits(), LD_PRELOAD="/own.so")["LD_PRELOAD"] == f"{LIBRARY}:/own.so"


def test_a_user_cannot_name_other_cards_or_another_limit_or_lift_it():
    own = {
        "CUDA_VISIBLE_DEVICES": "0,1,2",
        "CUDA_DEVICE_MEMORY_LIMIT_0": "0",
        "CUDA_REDIRECT": "/x",
        "A": "b",
    }
    lifts = {
        "CUDA_DISABLE_CONTROL",
        "CUDA_DEVICE_MEMORY_LIMIT",
        "CUDA_DEVICE_SM_LIMIT",
        "CUDA_MPS_PIPE_DIRECTORY",
    }
    env = env_of(task(indices=(2,)), limits(), **own, **dict.fromkeys(lifts, "1"))
    assert (env["CUDA_VISIBLE_DEVICES"], env["CUDA_DEVICE_MEMORY_LIMIT_0"]) == ("2", "20480m")
    assert (env["CUDA_REDIRECT"], env["A"], lifts & env.keys()) == (LIBRARY, "b", set())


def test_a_task_of_clearml_reports_the_part_that_it_has_of_each_card():
    given = task(indices=(0, 2), slices=2, submission=submission("half", source_id="clearml:a"))
    job = process_job(given, shares(given, CARDS, PART), limits(), "box/1/1", Path("/state/1/1"))
    assert job.env["CLEARML_AGENT_GPU_FRACTIONS"] == "0.250,0.250"


def test_without_a_library_nothing_is_preloaded_and_it_is_said():
    env = env_of(task(), limits(library=None))
    assert not {"LD_PRELOAD", "CUDA_REDIRECT", "CUDA_DEVICE_MEMORY_LIMIT_0"} & env.keys()
    assert limits(library=None).why_processes_are_unlimited == "there is no library of limiter hami-core"
    assert limits().why_processes_are_unlimited is None


def test_a_limiter_of_containers_does_not_limit_processes():
    part = part_for_nodes(policy())  # the part for nodes of a policy that limits at admission sets nothing
    assert limits(part=part).why_processes_are_unlimited == "limiter none does not limit processes"


def test_a_share_that_the_reserve_eats_up_is_refused():
    part = msgspec.structs.replace(PART, reserve_mib=30000)
    with pytest.raises(RefusedError, match=r"leave no memory after memory\.reserveMiB 30000"):
        shares(task(), CARDS, part)
