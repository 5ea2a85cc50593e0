"""`policy show|schema`, as an admin runs them."""

from tests.cli.running import run, write


def test_show_names_the_source_of_every_value(tmp_path):
    write(
        tmp_path,
        default="kind: Policy\nname: default\nslicesPerGpu: 4\nlimiter: own\n",
        own="kind: Limiter\nname: own\nneeds: [patience]\n",
        queues="kind: Queues\nqueues:\n  q:\n    namespaces: [n]\n    limiter: none\n",
    )
    code, out, _ = run("policy", "show", "--policies", tmp_path, "--namespace", "n", "--queue", "q")
    lines = out.splitlines()
    assert code == 0
    assert lines[0].endswith(", queue q")
    assert "slicesPerGpu: 4  # default.yaml:3" in lines
    assert 'fractions: {"0.250": 1, "0.500": 2, "0.750": 3}  # built-in default' in lines
    assert "limiter: none  # queues.yaml:5, queue q" in lines
    assert "# limiter none is from limiters/none.yaml:3 and needs:" in lines
    elsewhere = run("policy", "show", "--policies", tmp_path, "--queue", "q")[1].splitlines()
    assert "limiter: own  # default.yaml:4" in elsewhere
    assert "#   patience" in elsewhere


def test_a_queue_that_no_file_names_is_a_mistake(tmp_path):
    policy = "kind: Policy\nname: default\nquotas: {queues: {gpu_many: {slices: 8}}}\n"
    entry = "kind: Queues\nqueues:\n  gpu_half: {id: abc, namespaces: [team]}\n"
    write(tmp_path, default=policy, queues=entry)
    show = ["policy", "show", "--policies", tmp_path]
    code, out, err = run(*show, "--queue", "gpu_halv")
    assert (code, out) == (2, "")
    assert (
        'no policy file names queue "gpu_halv" (did you mean "gpu_half"?): known are gpu_half, gpu_many'
        in err
    )
    assert run(*show, "--queue-id", "abd")[0] == 2
    for known in (["--queue", "GPU-HALF", "-n", "team"], ["--queue-id", "abc"], ["--queue", "gpu-many"]):
        assert run(*show, *known)[0] == 0
    code, out, _ = run(*show, "--queue", "gpu_half")
    assert out.splitlines()[0] == "# queue gpu_half: its entry holds in team only, not in default"
