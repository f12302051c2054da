"""The files of the page: HTML, style and scripts, which load nothing from elsewhere.

The files are in the folder `page`, as they are sent: the page has no build step. They are public,
because a browser sends no token with them; the page asks for the token that the API needs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from coordinator_server.control.errors import ControlError
from coordinator_server.control.request import Content

if TYPE_CHECKING:
    from coordinator_server.control.request import ControlRequest

_FOLDER = Path(__file__).parent / "page"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

HEADERS = {
    "Content-Security-Policy": "; ".join(
        [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self'",
            "connect-src 'self'",
            "form-action 'none'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        ]
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
"""Headers of every file: the browser runs only these scripts, and asks only this server."""


async def index(request: ControlRequest) -> Content:
    """GET /: return the page."""
    return _content(_FOLDER / "index.html")


async def file(request: ControlRequest) -> Content:
    """GET /page/FILE or /page/views/FILE. Raises ControlError (404) for an unknown file."""
    name = request.parameters["FILE"]
    is_view = request.route is not None and "/views/" in request.route.path
    folder = _FOLDER / "views" if is_view else _FOLDER
    path = folder / name
    if path.suffix not in _TYPES or path.parent != folder or not path.is_file():
        raise ControlError(404, f"the page has no file {name}")
    return _content(path)


def _content(path: Path) -> Content:
    return Content(path.read_bytes(), _TYPES[path.suffix], HEADERS)
