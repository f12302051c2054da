"""Replace the generated parts of documents, which stand between marks in comments."""

from __future__ import annotations

import re


def with_part(page: str, name: str, text: str) -> str:
    """Return the page with `text` between the marks "begin: NAME" and "end: NAME"."""
    pattern = re.compile(rf"(<!-- begin: {name}[^\n]*-->\n).*?(?=<!-- end: {name} -->)", re.S)
    assert pattern.search(page), f"no part {name}"
    return pattern.sub(lambda found: found[1] + text, page)
