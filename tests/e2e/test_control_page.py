"""The files of the page without a browser: their headers and names, and a server without them."""

from __future__ import annotations

import http.client

import pytest

from coordinator_server.control.openapi import openapi
from tests.e2e.control_api import PAGE, PAGE_FILES, http_address
from tests.support import Serve


def test_the_files_have_a_strict_policy() -> None:
    """Each file allows only own scripts, styles and requests; any other name is 404."""
    assert {"app.js", "page.css", "index.html", "views/group.js"} <= set(PAGE_FILES)
    with Serve("--ephemeral", "--http", "127.0.0.1:0") as serve:
        connection = http.client.HTTPConnection(*http_address(serve), timeout=10)

        def get(path: str) -> tuple[int, http.client.HTTPMessage, bytes]:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.headers, response.read()

        for name in PAGE_FILES:
            path = "/" if name == "index.html" else f"/page/{name}"
            status, headers, body = get(path)
            policy = headers["Content-Security-Policy"]
            assert (status, body) == (200, (PAGE / name).read_bytes()), path
            assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert headers["X-Content-Type-Options"] == "nosniff"
        for path in (
            "/page/no.js",
            "/page/..%2fstatic.py",
            "/page/views/..%2fapp.js",
            "/page/views",
        ):
            assert get(path)[0] == 404, path
        connection.close()
        assert serve.stop() == 0


def test_the_document_has_the_page() -> None:
    """The OpenAPI document has the routes of the page, which need no login."""
    paths = openapi()["paths"]
    assert {"/", "/page/{file}", "/page/views/{file}"} <= set(paths)
    for path in ("/", "/page/{file}"):
        assert list(paths[path]) == ["get"]


def test_without_http_nothing_is_served() -> None:
    """Without --http there is no control server; the listener of Kafka answers no HTTP."""
    with Serve("--ephemeral") as serve:
        assert serve.log_lines("control.listening") == []
        connection = http.client.HTTPConnection(*serve.address, timeout=10)
        connection.request("GET", "/")
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            connection.getresponse()
        connection.close()
        assert serve.stop() == 0
