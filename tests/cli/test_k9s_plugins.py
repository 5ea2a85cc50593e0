"""The k9s plugins call what there is, with options that exist."""

import re
import shlex

import yaml

from tests.cli.running import CHECKOUT, run

PLUGINS = yaml.safe_load((CHECKOUT / "plugins" / "k9s.yaml").read_text())["plugins"]


def test_every_plugin_calls_a_command_with_options_that_it_has():
    for plugin in PLUGINS.values():
        script = plugin["args"][1]
        words = shlex.split(script.partition(" 2>&1")[0])
        assert words[0] == "kubectl-fraction"
        usage = run(words[1], "--help").stdout
        assert all(word in usage for word in words if word.startswith("--"))


def test_names_reach_the_shell_as_arguments_and_never_as_its_text():
    for plugin in PLUGINS.values():
        _, script, *names = plugin["args"]
        used = {int(number) for number in re.findall(r'"\$(\d)"', script)}
        assert used == set(range(1, len(names)))
        assert not re.search(r"\$[A-Z]", script)
