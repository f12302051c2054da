"""Scenarios in data files: requests, each followed by Kafka's answer.

A file is an area. `python -m tests.conformance record` plays it against Kafka and writes the
answers anew; everything else in the file stays. docs/conformance.md describes the format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, product
from math import prod
from pathlib import Path
from typing import NamedTuple

from tests.conformance.commands import Scope, Vocabulary
from tests.conformance.flow import Reader, render, wrapped
from tests.conformance.recording import UNFINISHED, Transcript
from tests.conformance.stage import Scenario, Stage

_SCENARIOS = Path(__file__).parent / "scenarios"
_ODD_LABEL = re.compile(r"\(not parked\)$| waits$|^(until|wait|settle)\b")
"""Labels of what has gone wrong; other labels follow from the request."""
_NAME = re.compile(r"\w+")
_ANSWER, _UNDER = "    ", "      "

Case = Mapping[str, str]
"""A value, as text, of each parameter of a table."""
Block = tuple[str, ...]
"""The steps of one request: results, with a label if there are several."""


class Parameter(NamedTuple):
    """Values of a table, as text, with further columns that requests can refer to."""

    name: str
    columns: tuple[str, ...]
    values: dict[str, tuple[str, ...]]

    def replacements(self, value: str) -> dict[str, str]:
        """Return the values that replace the parameter and its columns in a request."""
        columns = zip(self.columns, self.values[value], strict=True)
        return {self.name: value, **{f"{self.name}.{column}": text for column, text in columns}}


class Request:
    """A request line and its recorded blocks by case."""

    def __init__(self, line: str) -> None:
        self.line = line
        self.blocks: list[tuple[dict[str, list[str]], Block]] = []
        self._unread = ""

    def add(self, line: str) -> None:
        """Add a line beneath the request. A line with a deeper indent continues the line before."""
        if len(line) - len(line.lstrip()) > len(_UNDER):
            if self._unread:
                self._unread += f" {line.strip()}"
            else:
                self.line += f" {line.strip()}"
            return
        self.finish()
        self._unread = line

    def finish(self) -> None:
        """Parse the last line, which no further line continues."""
        line, self._unread = self._unread, ""
        text = line.strip()
        if not text:
            return
        if not line.startswith(_UNDER) and text.startswith("when "):
            selector, step = _selector(text)
            self.blocks.append((selector, (step,) if step else ()))
            return
        if not line.startswith(_UNDER) and not self.blocks:
            self.blocks.append(({}, ()))
        selector, block = self.blocks[-1]
        self.blocks[-1] = selector, (*block, text)

    def block(self, case: Case) -> Block:
        """Return the recorded answer of a case; () if nothing was recorded."""
        for selector, block in self.blocks:
            if all(case[name] in values for name, values in selector.items()):
                return block
        return ()

    def text(self) -> Iterator[str]:
        """Yield the lines of the file."""
        first, *more = wrapped(self.line, "")
        yield first
        yield from (f"{_ANSWER}{line}" for line in more)
        for selector, block in self.blocks:
            if not selector:
                for step in block:
                    yield from wrapped(step, _ANSWER)
                continue
            names = "; ".join(f"{name} {', '.join(values)}" for name, values in selector.items())
            if len(block) == 1:
                yield from wrapped(f"when {names}: {block[0]}", _ANSWER)
                continue
            yield from wrapped(f"when {names}:", _ANSWER)
            for step in block:
                yield from wrapped(step, _UNDER)


class Table:
    """One scenario, or several that differ in the values of parameters."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.question: list[str] = []
        self.parameters: list[Parameter] = []
        self.requests: list[Request] = []

    def cases(self) -> list[Case]:
        """Return all combinations of the values."""
        names = [one.name for one in self.parameters]
        values = product(*(one.values for one in self.parameters))
        return [dict(zip(names, chosen, strict=True)) for chosen in values]

    def named(self, case: Case) -> str:
        """Return the name of a scenario."""
        return _filled(self.name, _spoken(case)).replace(" ", "_")

    def asked(self, case: Case) -> str:
        """Return the question of a scenario."""
        return _filled(" ".join(self.question), _spoken(case))

    def step(self, request: Request, case: Case) -> str:
        """Return the label of a request in transcripts."""
        return f"{self.requests.index(request) + 1} {self.line(request, case)}"

    def line(self, request: Request, case: Case) -> str:
        """Return a request line with the parameter values of a case."""
        replacements: dict[str, str] = {}
        for parameter in self.parameters:
            replacements |= parameter.replacements(case[parameter.name])
        return _filled(request.line, replacements).rstrip()


def _filled(text: str, replacements: Mapping[str, str]) -> str:
    return re.sub(r"\{([a-z_]+(?:\.[a-z_]+)?)\}", lambda name: replacements[name[1]], text)


def _spoken(case: Case) -> dict[str, str]:
    return {name: str(Reader(value).value()) for name, value in case.items()}


class DataFile:
    """The scenarios of an area."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.area = path.stem
        self.profile = "a"
        self.tables: list[Table] = []
        self._modules: list[str] = []
        self._lines: list[str | Request] = []
        for line in path.read_text(encoding="utf-8").splitlines():
            self._read(line)
        for table in self.tables:
            for request in table.requests:
                request.finish()

    def _read(self, line: str) -> None:
        """Parse one line. Lines other than requests and answers are only kept."""
        request = self._lines[-1] if self._lines else None
        if line.startswith(_ANSWER) and isinstance(request, Request):
            request.add(line)
            return
        self._lines.append(line)
        word, _, rest = line.partition(" ")
        if word == "profile" and not self.tables:
            self.profile = rest
        elif word == "use" and not self.tables:
            self._modules += rest.split()
        elif word == "scenario":
            self.tables.append(Table(rest))
        elif word == "#" and self.tables and not self.tables[-1].requests:
            self.tables[-1].question.append(rest)
        elif word == "with":
            self.tables[-1].parameters.append(_parameter(rest))
        elif line.startswith(_ANSWER):
            value, *columns = (part.strip() for part in line.split(" | "))
            parameter = self.tables[-1].parameters[-1]
            missing = len(parameter.columns) - len(columns)
            parameter.values[value] = (*columns, *[""] * missing)
        elif line and word != "#":
            request = Request(line)
            self._lines[-1] = request
            self.tables[-1].requests.append(request)

    def scenarios(self) -> Iterator[Scenario]:
        """Yield the scenarios."""
        vocabulary = Vocabulary(self._modules)
        for table in self.tables:
            for case in table.cases():
                play = partial(_play, vocabulary, table, case)
                name = f"{self.area}.{table.named(case)}"
                yield Scenario(name, self.area, self.profile, table.asked(case), play)

    def answers(self) -> dict[str, Transcript]:
        """Return the recorded transcripts, in the same form as those of `_play`."""
        found: dict[str, Transcript] = {}
        for table in self.tables:
            for case in table.cases():
                blocks = [(table.step(one, case), one.block(case)) for one in table.requests]
                steps = [[label, list(block)] for label, block in blocks if block]
                if steps:
                    found[f"{self.area}.{table.named(case)}"] = steps
        return found

    def rewrite(self, answers: Mapping[str, Transcript], directory: Path | None = None) -> None:
        """Write the file with these answers; scenarios without a new answer keep the old one.

        With a directory the file is written there.
        """
        for table in self.tables:
            for request in table.requests:
                blocks: list[tuple[Case, Block]] = []
                for case in table.cases():
                    block = request.block(case)
                    steps = answers.get(f"{self.area}.{table.named(case)}")
                    if steps is not None:
                        label = table.step(request, case)
                        block = next((tuple(told) for own, told in steps if own == label), ())
                    blocks.append((case, block))
                request.blocks = list(_merged(table.parameters, blocks))
        path = (directory or self.path.parent) / self.path.name
        path.write_text("\n".join(self._text()) + "\n", encoding="utf-8")

    def _text(self) -> Iterator[str]:
        for line in self._lines:
            if isinstance(line, Request):
                yield from line.text()
            else:
                yield line


def data_files() -> list[DataFile]:
    """Return the data files of all areas."""
    return [DataFile(path) for path in sorted(_SCENARIOS.glob("*.txt"))]


def _parameter(text: str) -> Parameter:
    """Return the parameter of a `with` line; it has no values if separate lines list them."""
    head, _, listed = text.partition(":")
    name, *columns = (part.strip() for part in head.split(" | "))
    reader = Reader(listed)
    values: dict[str, tuple[str, ...]] = {}
    while not reader.at_end():
        values[render(reader.value())] = ()
        reader.skip(",")
    return Parameter(name, tuple(columns), values)


def _selector(text: str) -> tuple[dict[str, list[str]], str]:
    """Return the values by parameter of a `when` line, and the text after the colon."""
    reader = Reader(text.removeprefix("when "))
    selector: dict[str, list[str]] = {}
    while not reader.skip(":"):
        name = reader.match(_NAME) or ""
        selector[name] = [render(reader.value())]
        while reader.skip(","):
            selector[name].append(render(reader.value()))
        reader.skip(";")
    return selector, reader.rest()


def _merged(
    parameters: Sequence[Parameter], blocks: Sequence[tuple[Case, Block]]
) -> Iterator[tuple[dict[str, list[str]], Block]]:
    """Yield each different block once, with the fewest parameters that distinguish the cases."""
    names = _deciding([one.name for one in parameters], blocks)
    cases: dict[Block, list[tuple[str, ...]]] = {}
    for case, block in blocks:
        chosen = tuple(case[name] for name in names)
        if chosen not in cases.setdefault(block, []):
            cases[block].append(chosen)
    for block, all_chosen in cases.items():
        if block:
            for values in _products(all_chosen):
                yield dict(zip(names, values, strict=True)), block


def _deciding(names: Sequence[str], blocks: Sequence[tuple[Case, Block]]) -> tuple[str, ...]:
    for count in range(len(names)):
        for some in combinations(names, count):
            seen: dict[tuple[str, ...], Block] = {}
            if all(
                seen.setdefault(tuple(case[name] for name in some), block) == block
                for case, block in blocks
            ):
                return some
    return tuple(names)


def _products(chosen: Sequence[tuple[str, ...]]) -> Iterator[list[list[str]]]:
    """Split combinations of values into products of lists, though not always the fewest."""
    columns = [list(dict.fromkeys(column)) for column in zip(*chosen, strict=True)]
    if len(chosen) == prod(map(len, columns)):
        yield columns
        return
    position = next(number for number, column in enumerate(columns) if len(column) > 1)
    for value in columns[position]:
        yield from _products([one for one in chosen if one[position] == value])


def _play(vocabulary: Vocabulary, table: Table, case: Case, t: Stage) -> None:
    """Play a scenario; its transcript has a step per request, whose result is a block."""
    scope = Scope(t, vocabulary)
    steps: Transcript = []
    try:
        for request in table.requests:
            try:
                scope.run(table.line(request, case))
            finally:
                told = [step for step in t.steps if step[0] in UNFINISHED]
                block = _rendered([step for step in t.steps if step[0] not in UNFINISHED])
                steps += [[table.step(request, case), block]] if block else []
                steps += told
                t.steps.clear()
    finally:
        t.steps[:] = steps


def _rendered(steps: Transcript) -> list[str]:
    texts = [
        (label, render(json.loads(json.dumps(result, sort_keys=True)))) for label, result in steps
    ]
    if len(texts) == 1 and not _ODD_LABEL.search(texts[0][0]):
        return [texts[0][1]]
    return [f"{label}: {text}" for label, text in texts]
