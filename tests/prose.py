"""Print random docstrings, comments and sentences of the docs, for a reader to mark unclear texts.

`make prose SEED=n` prints the same 60 texts for the same seed and the same tree: 20 docstrings, 20
comments, and 20 sentences of the docs. A docstring of a function is followed by the function's
header, a comment by its line of code, and a sentence by its paragraph, because readers see them
together. A text that a reader has to read twice is rewritten.
"""

from __future__ import annotations

import argparse
import ast
import io
import random
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support import ROOT

PACKAGES = ("coordinator_server", "protocol", "storage", "pipeline", "benchmarks", "tests")
EACH = 20
"""How many texts of each kind are printed."""
LEAST_WORDS = 4
"""Shorter comments and sentences are left out."""
_DIRECTIVE = re.compile(r"(?:type: ignore|ruff: |noqa|fmt: |pragma: )")
"""The beginning of a comment that is an instruction to a tool."""
_ITEM_START = re.compile(r"\n(?=[ \t]*(?:[-*]|[1-9]\d?\.) )")


class Text(NamedTuple):
    """A text and its location: a path below the root, and a line.

    `context` is the header of a function, the line of code of a comment, or the paragraph of a
    sentence.
    """

    path: str
    line: int
    text: str
    context: str = ""


def docstrings(path: Path, source: str) -> Iterator[Text]:
    """Yield the docstrings of a module, its classes and its functions."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            name = f"{getattr(node, 'name', '')}: {text}"
            yield Text(_label(path), node.body[0].lineno, name, _signature(node))


def _signature(node: ast.AST) -> str:
    """Return the header of a function, or an empty string for a class or module."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return ""
    returned = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"def {node.name}({ast.unparse(node.args)}){returned}"


def comments(path: Path, source: str) -> Iterator[Text]:
    """Yield the comments of a module; adjacent comment lines count as one comment.

    Instructions to tools, such as `type: ignore`, are left out.
    """
    last: Text | None = None
    code = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type is not tokenize.COMMENT:
            continue
        line, text = token.start[0], token.string.lstrip("# ")
        if _DIRECTIVE.match(text):
            continue
        if last is not None and last.line + last.text.count("\n") + 1 == line:
            last = last._replace(text=f"{last.text}\n{text}")
            continue
        if last is not None:
            yield last
        alone = code[line - 1].lstrip().startswith("#")
        last = Text(_label(path), line, text, _code_line(code, line if alone else line - 1))
    if last is not None:
        yield last


def _code_line(code: Sequence[str], start: int) -> str:
    """Return the first line from index `start` on that is not a comment."""
    lines = (line.strip() for line in code[start:])
    return next((line for line in lines if line and not line.startswith("#")), "")


def sentences(path: Path, source: str) -> Iterator[Text]:
    """Yield the sentences of a page, without code, tables and headings.

    Every list item begins a new sentence.
    """
    source = re.sub(r"```.*?```", lambda block: "\n" * block[0].count("\n"), source, flags=re.S)
    line = 1
    for paragraph in re.split(r"(\n\s*\n)", source):
        is_code = paragraph.strip("\n").startswith("    ")
        if paragraph.strip() and not is_code and paragraph.lstrip()[0] not in "|#<":
            item_line = line
            for item in _ITEM_START.split(paragraph.strip()):
                for sentence in re.split(r"(?<=[.:;?!])(?<!^\d\.)\s+", item.strip()):
                    text = " ".join(sentence.split())
                    yield Text(_label(path), item_line, text, paragraph.strip())
                item_line += item.count("\n") + 1
        line += paragraph.count("\n")


def _label(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def collect() -> dict[str, list[Text]]:
    """Return all texts of the project by kind, in the order of their paths."""
    found: dict[str, list[Text]] = {"docstrings": [], "comments": [], "docs": []}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            found["docstrings"] += docstrings(path, source)
            found["comments"] += comments(path, source)
    for path in sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]):
        if path.name != "CHANGELOG.md":
            found["docs"] += sentences(path, path.read_text(encoding="utf-8"))
    for kind in ("comments", "docs"):
        found[kind] = [text for text in found[kind] if len(text.text.split()) >= LEAST_WORDS]
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the texts drawn with the given seed."""
    parser = argparse.ArgumentParser(prog="python -m tests.prose", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--under", default="", help="only texts of paths that begin so")
    options = parser.parse_args(arguments)
    chosen = random.Random(options.seed)
    number = 0
    for texts in collect().values():
        texts = [text for text in texts if text.path.startswith(options.under)]
        for text in chosen.sample(texts, min(EACH, len(texts))):
            number += 1
            body = text.text.replace("\n", "\n    ")
            print(f"{number}. {text.path}:{text.line}\n    {body}\n")
            if text.context and text.context != text.text:
                context = text.context.replace("\n", "\n        ")
                print(f"    in context:\n        {context}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
