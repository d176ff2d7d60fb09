"""Signatures of webhooks."""

import json
from pathlib import Path

import pytest

from postroom.webhook import VerifyError, verify

VECTORS = json.loads((Path(__file__).parents[2] / "webhook-vectors.json").read_text())


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_a_signature_is_judged_as_the_relay_judges_it(vector: dict) -> None:
    headers = {f"Webhook-{name.title()}": vector[name] for name in ("id", "timestamp", "signature")}
    try:
        verify(vector["keys"], headers, vector["body"].encode(), now=vector["now"])
        result = "ok"
    except VerifyError as error:
        result = error.reason
    assert result == vector["result"]


def test_a_key_that_is_none_is_refused() -> None:
    headers = {"webhook-id": "1", "webhook-timestamp": "1", "webhook-signature": "v1,x"}
    with pytest.raises(ValueError, match="whsec_"):
        verify("hunter2", headers, b"")
