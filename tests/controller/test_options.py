"""The controller's options: texts with a form of their own."""

import pytest

from controller.options import _address, _agents, _config_map, _names


def test_an_ipv6_address_gets_its_brackets():
    given = ["https://10.0.0.7:9443", "https://fd00::7:9443", "https://[fd00::7]:9443"]
    assert [_address(text) for text in given] == [given[0], given[2], given[2]]


def test_a_config_map_is_a_namespace_and_a_name():
    assert _config_map("gpu-operator/mig") == ("gpu-operator", "mig")


def test_the_name_of_a_gpus_slices_gives_the_names_to_count():
    assert _names("example.com/gpu-{index}").per_gpu_prefix == "example.com/gpu-"


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (_address, "https://10.0.0.7", '--advertise "https://10.0.0.7" must be'),
        (_config_map, "mig", '--mig-config-map "mig" is not NAMESPACE/NAME, such as '),
        (_config_map, "a/b/c", '--mig-config-map "a/b/c" is not NAMESPACE/NAME'),
        (_agents, '{"nodeSelector": 1}', "--agent-pods: Expected `object"),
        (_agents, "{", "--agent-pods: Input data was truncated; set nodeSelector, affinity and tolerations"),
    ],
)
def test_a_text_of_another_form_is_refused_by_the_name_of_its_option(read, text, message):
    with pytest.raises(ValueError) as refused:
        read(text)
    assert str(refused.value).startswith(message)
