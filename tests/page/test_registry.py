"""The record browser with a schema registry."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.page.browser import View
from tests.registry import RECORDED, RegistryServer, control_of, framed, produce, serve_with

pytestmark = pytest.mark.nightly


def test_decoded_values_are_shown(open_view: Callable[..., View]) -> None:
    """Values are shown decoded, with the exact number; hostile names and reasons are only text."""
    hostile = '{"type": "record", "name": "R", "fields": [{"name": "f", "type": "string"}]}'
    with RegistryServer() as registry, serve_with(registry) as serve:
        registry.add("hostile", 70, hostile)
        api = control_of(serve)
        value = bytes.fromhex(RECORDED["values"][0]["hex"])
        text = b"<img src=x onerror=alert(1)>"
        produce(api, value, framed(70, bytes([len(text) * 2]) + text), framed(99, b"x"))
        address = api.control.address
        view = open_view(address, "records", "t")
        shown = {
            row[0]: row[3]
            for row in view.rows("Records, the newest first; the offset is PARTITION-OFFSET")
        }
        assert '"id": 9007199254740993' in shown["0-0"]
        assert "Avro schema 2, shop.Order" in shown["0-0"]
        assert text.decode() in shown["0-1"]
        assert "not decoded: the registry answers /schemas/ids/99" in shown["0-2"]
        assert view.violations() == []
        view.go("records", "t", query={"record": "0-0"})
        whole = view.page.locator("pre.content").all_inner_texts()
        assert '  "id": 9007199254740993,\n' in whole[-1]
        assert '  "address": {\n    "city": "Ulm"\n  }\n}' in whole[-1]
        view.go("records", "t", query={"record": "0-2"})
        assert "Not decoded: the registry" in view.page.inner_text("main")
        assert serve.stop() == 0
