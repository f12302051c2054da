"""The configuration of Sphinx, which `make docs` runs on the pages in docs/ and at the root.

The pages are read from the root of the checkout, so that links to README.md and benchmarks/ work
both here and on a forge.
"""

import sys
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from coordinator_server import __version__  # noqa: E402
from tests.docs import command_line, navigation  # noqa: E402

project = "coordinator-server"
author = "the authors of coordinator-server"
release = __version__
root_doc = "docs/README"
include_patterns = ["docs/**.md", "benchmarks/README.md", "examples/**/README.md", "*.md"]
exclude_patterns = [".*"]
extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_heading_anchors = 4
smartquotes = False
# Docstrings have code in single backquotes, as Markdown.
default_role = "literal"
autodoc_member_order = "bysource"
html_theme = "furo"
html_title = f"coordinator-server {__version__}"
html_extra_path = ["index.html"]
html_show_sourcelink = False


def _add_generated_parts(app: Sphinx, page: str, source: list[str]) -> None:
    """Add the parts of a page that are not in its file."""
    if page in navigation.PAGES_WITH_TABLES:
        source[0] = navigation.with_toctrees(page, source[0])
    if page == "docs/command-line":
        source[0] += "\n" + command_line.markdown()


def setup(app: Sphinx) -> None:
    """Register the functions that Sphinx calls."""
    app.connect("source-read", _add_generated_parts)
