"""Options of the webhook that exclude each other."""

from pathlib import Path

import pytest

from webhook.options import WebhookOptions

TLS = {"tls_directory": Path("tls")}
CONTROLLER = {"controller": "https://localhost:1"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs one certificate"),
        ({"self_signed": True, **TLS}, "needs one certificate"),
        (TLS, "needs one ledger"),
        ({**TLS, **CONTROLLER, "inventory": Path("nodes")}, "needs one ledger"),
        ({**CONTROLLER, "self_signed": True}, "--controller needs --tls-dir DIR"),
        ({**TLS, **CONTROLLER, "page_port": 0}, "the controller shows its own with --page"),
    ],
)
def test_options_that_exclude_each_other_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        WebhookOptions(**options)
