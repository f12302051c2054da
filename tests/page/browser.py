"""A headless Chromium that opens the page, and reports what a page must not do.

A `View` is a tab. It records errors on the console, uncaught exceptions, violations of the content
security policy, dialogs, and requests that fail or go to another server.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Dialog,
    Locator,
    Page,
    Request,
    Response,
    sync_playwright,
)

from tests import npm, support

AXE_VERSION = "4.14.1"
NAMES = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_ABORTED = "net::ERR_ABORTED"
"""A request that the page itself has ended, for example by navigating to another view."""

_LOST = "net::ERR_"
WIDE, NARROW = (1280, 900), (390, 844)
TIMEOUT_MS = 15_000
T = TypeVar("T")


def missing() -> str | None:
    """Return the tools that this machine lacks, or None if the tests can run."""
    if not any(map(shutil.which, NAMES)):
        return "no Chromium"
    return None if shutil.which("npm") else "no npm"


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run the system's Chromium."""
    path = next(filter(None, map(shutil.which, NAMES)))
    environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=list(_ARGUMENTS), env={**environment}
        )
        try:
            yield browser
        finally:
            browser.close()


def wait_for(condition: Callable[[], T], what: str) -> T:
    """Return the first truthy value of `condition`; fail with `what` after the time limit."""
    return support.wait_for(condition, what, TIMEOUT_MS / 1000, step_seconds=0.05)


class View:
    """A tab of the browser with the page of one control server, in a session of its own."""

    def __init__(
        self,
        browser: Browser,
        address: tuple[str, int],
        *,
        scheme: str = "light",
        size: tuple[int, int] = WIDE,
    ) -> None:
        host, port = address
        self.base = f"http://{host}:{port}"
        self.problems: list[str] = []
        self.refusals: list[tuple[int, str]] = []
        """Status and URL of each response with an error."""
        self.may_lose_server = False
        """Whether the test stops the server: failed requests are then no problem."""
        self.context = browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if scheme == "dark" else "light",
        )
        self.context.set_default_timeout(TIMEOUT_MS)
        self.page: Page = self.context.new_page()
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.problems.append(f"exception: {error}"))
        self.page.on("dialog", self._dialog)
        self.page.on("requestfailed", self._failed)
        self.page.on("request", self._request)
        self.page.on("response", self._response)

    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    # --- what must not happen ---------------------------------------------------------------------

    def _console(self, message: ConsoleMessage) -> None:
        # Chromium also logs each response with an error status, but these are checked as
        # `refusals`.
        is_status = "Failed to load resource: the server responded" in message.text
        is_lost = self.may_lose_server and _LOST in message.text
        if message.type in ("error", "warning") and not is_status and not is_lost:
            self.problems.append(f"console {message.type}: {message.text[:500]}")

    def _dialog(self, dialog: Dialog) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _failed(self, request: Request) -> None:
        if request.failure != _ABORTED and not self.may_lose_server:
            self.problems.append(f"{request.method} {request.url}: {request.failure}")

    def _request(self, request: Request) -> None:
        if not request.url.startswith(self.base):
            self.problems.append(f"request to another server: {request.url[:300]}")

    def _response(self, response: Response) -> None:
        if response.status >= 400:
            self.refusals.append((response.status, response.url.removeprefix(self.base)))

    def check(self, *, refusals: Sequence[int] = ()) -> None:
        """Fail if the page did what it must not; `refusals` are expected statuses."""
        assert not self.problems, self.problems
        unexpected = [refusal for refusal in self.refusals if refusal[0] not in refusals]
        assert not unexpected, unexpected

    def violations(self, *rules: str) -> list[str]:
        """Return the violations that axe-core finds, each with its elements.

        `rules` are the ids of rules; without any, all of axe-core's default rules are checked.
        """
        if self.page.evaluate("typeof window.axe") != "object":
            self.page.evaluate(
                (npm.library("axe-core", AXE_VERSION) / "axe-core/axe.min.js").read_text()
            )
        options = {"runOnly": {"type": "rule", "values": list(rules)}} if rules else {}
        found: dict[str, Any] = self.page.evaluate(
            "options => window.axe.run(document, options)",
            {**options, "resultTypes": ["violations"]},
        )
        return [
            f"{rule['id']} ({rule['impact']}): {rule['help']}: "
            + "; ".join(
                f"{node['html'][:200]} {node['failureSummary']}" for node in rule["nodes"][:3]
            )
            for rule in found["violations"]
        ]

    def overflow(self) -> int:
        """Return by how many pixels the document is wider than the window."""
        return int(
            self.page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
        )

    # --- what a user does -------------------------------------------------------------------------

    def open(self, *parts: str, query: Mapping[str, object] | None = None) -> None:
        """Open a view by its link, and wait until it is shown."""
        self.follow(link(*parts, query=query))

    def follow(self, address: str) -> None:
        """Load the page at the part behind `#`, and wait until the view is shown."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.base}/{address}")
        self.shown()

    def go(self, *parts: str, query: Mapping[str, object] | None = None) -> None:
        """Navigate to a view without loading the page again, and wait until the view is shown."""
        self.page.evaluate("document.querySelector('main').replaceChildren()")
        self.page.evaluate("address => { location.hash = address }", link(*parts, query=query))
        self.shown()

    def shown(self, title: str | None = None) -> None:
        """Wait until a view is shown, with this heading if it is given."""
        heading = self.page.locator("main h1")
        (heading.filter(has_text=title) if title else heading).first.wait_for()

    @property
    def hash(self) -> str:
        """Return the part of the address behind `#`."""
        return str(self.page.evaluate("location.hash"))

    @property
    def text(self) -> str:
        """Return the text of the content."""
        return self.page.locator("main").inner_text()

    def button(self, name: str) -> Locator:
        """Return the button with exactly this name."""
        return self.page.get_by_role("button", name=name, exact=True)

    def field(self, label: str) -> Locator:
        """Return the input with this label."""
        return self.page.locator("main").get_by_label(label)

    def table(self, caption: str) -> Locator:
        """Return the table with this caption."""
        return self.page.get_by_role("region", name=caption, exact=True).get_by_role("table")

    def rows(self, caption: str) -> list[list[str]]:
        """Return the texts of the body of a table; empty if the table has no rows."""
        region = self.page.locator(f"[role=region][aria-label={json.dumps(caption)}]")
        found: list[list[str]] = region.locator("tbody tr").evaluate_all(
            "rows => rows.map(row => [...row.cells].map(cell => cell.innerText.trim()))"
        )
        return found

    def message(self, text: str) -> Locator:
        """Wait for a message with this text, and return its element."""
        found = self.page.locator("#status").filter(has_text=text)
        found.wait_for()
        return found

    def forget_message(self) -> None:
        """Remove the message of an earlier change, so that `message` waits for the next one."""
        self.page.evaluate("document.getElementById('status').textContent = ''")

    def confirm(self, name: str) -> None:
        """Answer the open dialog with the button of this name."""
        self.page.get_by_role("dialog").get_by_role("button", name=name, exact=True).click()

    def disclose(self, summary: str) -> Locator:
        """Open a closed part of the view, and return it."""
        part = self.page.locator("details").filter(
            has=self.page.locator("summary", has_text=summary)
        )
        if part.first.get_attribute("open") is None:
            part.first.locator("> summary").click()
        return part.first


def fill(form: Locator, fields: Mapping[str, str]) -> None:
    """Fill in inputs by their labels."""
    for label, value in fields.items():
        name = form.page.locator("span").filter(has_text=re.compile(f"^{re.escape(label)}$"))
        field = form.locator("label").filter(has=name).locator("input, select, textarea")
        if field.evaluate("field => field.nodeName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)


def link(*parts: str, query: Mapping[str, object] | None = None) -> str:
    """Return the link of a view."""
    path = "/".join(quote(part, safe="") for part in parts)
    return f"#/{path}?{urlencode(query)}" if query else f"#/{path}"
