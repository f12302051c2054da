"""The navigation of the rendered documentation: the tables of docs/README.md, as Sphinx toctrees.

docs/README.md and docs/decisions/README.md list every page, and are readable on a forge. A page
that no table lists has no toctree, which is an error of `make docs`.
"""

from __future__ import annotations

import posixpath
import re

PAGES_WITH_TABLES = ("docs/README", "docs/decisions/README")

_LISTED = re.compile(r"^\| \[[^\]]*\]\(([^)#]+)\.md\)", re.MULTILINE)


def with_toctrees(page: str, text: str) -> str:
    """Return a page's source with a hidden toctree for each section that has a table of pages."""
    parts = []
    for section in re.split(r"^(?=## )", text, flags=re.MULTILINE):
        if not (links := _LISTED.findall(section)):
            continue
        heading = re.match(r"## (.*)", section)
        caption = f":caption: {heading[1]}\n" if heading else ""
        names = [
            f"/{posixpath.normpath(posixpath.join(posixpath.dirname(page), link))}\n"
            for link in links
        ]
        parts.append(f"```{{toctree}}\n:hidden:\n{caption}\n{''.join(names)}```\n")
    return "\n".join([text, *parts])
