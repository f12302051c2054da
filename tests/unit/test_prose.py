"""The selection of texts for readers: what counts as a text, and repeatable seeds."""

from __future__ import annotations

import pytest

from tests import prose
from tests.support import ROOT

PATH = ROOT / "module.py"
SOURCE = '''"""About the module."""
# A comment of
# two lines.
LIMIT = 3  # in seconds, after the code


class Reader:
    """About the class."""

    def read(self):
        """About the method."""
'''


def test_docstrings_have_the_name_of_what_they_describe() -> None:
    """Docstrings of modules, classes and methods are found with name and line."""
    texts = [(text.line, text.text) for text in prose.docstrings(PATH, SOURCE)]
    assert texts == [
        (1, ": About the module."),
        (8, "Reader: About the class."),
        (11, "read: About the method."),
    ]


def test_comments_in_lines_that_follow_each_other_are_one() -> None:
    """Adjacent comment lines are one text; a comment after code is a text too."""
    texts = [(text.line, text.text) for text in prose.comments(PATH, SOURCE)]
    assert texts == [(2, "A comment of\ntwo lines.\nin seconds, after the code")]


def test_texts_have_a_context() -> None:
    """The context is a function's header, a comment's line of code, a sentence's paragraph."""
    assert [text.context for text in prose.docstrings(PATH, SOURCE)] == ["", "", "def read(self)"]
    (comment,) = prose.comments(PATH, SOURCE)
    assert comment.context == "LIMIT = 3  # in seconds, after the code"
    page = "One idea. Another\none.\n\nMore.\n"
    contexts = [text.context for text in prose.sentences(ROOT / "page.md", page)]
    assert contexts == ["One idea. Another\none."] * 2 + ["More."]


def test_sentences_leave_out_code_tables_and_headings() -> None:
    """Each sentence is a text of one line; code, tables and headings are left out."""
    page = "# Title\n\nOne idea. Another\none.\n\n```\ncode.\n```\n\n    code.\n\n| a | table. |\n"
    texts = [text.text for text in prose.sentences(ROOT / "page.md", page)]
    assert texts == ["One idea.", "Another one."]


def test_directives_are_no_comments() -> None:
    """Comments for mypy, ruff and other tools are left out, and do not end another comment."""
    source = """a = 1  # type: ignore[misc]  # no stubs
# A comment of
# two lines.
b = 2  # noqa: F401
c = 3  # fmt: skip
"""
    texts = [(text.line, text.text) for text in prose.comments(PATH, source)]
    assert texts == [(2, "A comment of\ntwo lines.")]


def test_list_items_are_separate_sentences() -> None:
    """A list item without a full stop is not joined with the next item."""
    page = "Kinds:\n\n- one\n  item\n- another item\n\n1. first\n2. second: of two in 4.3. End.\n"
    texts = [(text.line, text.text) for text in prose.sentences(ROOT / "page.md", page)]
    assert texts == [
        (1, "Kinds:"),
        (3, "- one item"),
        (5, "- another item"),
        (7, "1. first"),
        (8, "2. second:"),
        (8, "of two in 4.3."),
        (8, "End."),
    ]


def test_a_seed_draws_the_same_texts_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run prints sixty texts; the same seed selects the same texts, another seed does not."""
    monkeypatch.setattr(prose, "PACKAGES", ("storage",))
    outputs = []
    for seed in ("1", "1", "2"):
        assert prose.main(["--seed", seed]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != outputs[2]
    assert "\n60. " in outputs[0]
    assert "\n61. " not in outputs[0]
