"""House rules that a machine can check, over every module of the repository."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = (
    "coordinator_server",
    "protocol",
    "storage",
    "pipeline",
    "tests",
    "benchmarks",
    "examples",
)
MODULES = sorted(path for name in FOLDERS for path in (ROOT / name).rglob("*.py"))
PRODUCT = [path for path in MODULES if path.relative_to(ROOT).parts[0] != "tests"]
TESTS = [path for path in MODULES if path.name.startswith("test_")]

MODULE_LINES = 500
TEST_MODULE_LINES = 900
FUNCTION_LINES = 70
LINE_COLUMNS = 100

# These modules may catch any exception: the dispatcher, a group's task, the loading of a partition,
# the SASL authenticator, the process that decodes values, and tracing.
ERROR_BOUNDARIES = {
    "coordinator_server/control/http.py",
    "coordinator_server/metrics/scrape.py",
    "coordinator_server/net/dispatch.py",
    "coordinator_server/coordinator/task.py",
    "coordinator_server/runtime/coordinator.py",
    "coordinator_server/registry/worker.py",
    "coordinator_server/security/sasl/authenticator.py",
    "coordinator_server/tracing/tracing.py",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def label(path: Path) -> str:
    """Return the path within the repository."""
    return path.relative_to(ROOT).as_posix()


@lru_cache(maxsize=1)
def source(path: Path) -> str:
    """Return the text of a module."""
    return path.read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def tree(path: Path) -> ast.Module:
    """Return the parsed module."""
    return ast.parse(source(path), filename=label(path))


@lru_cache(maxsize=1)
def nodes(path: Path) -> list[ast.AST]:
    """Return all nodes of a module."""
    return list(ast.walk(tree(path)))


def functions(path: Path) -> Iterator[Function]:
    """Yield all functions of a module, including nested ones."""
    return (node for node in nodes(path) if isinstance(node, Function))


Rule = Callable[[Path], None]
RULES: list[tuple[Rule, frozenset[Path]]] = []


@cache
def breaches() -> dict[Rule, list[str]]:
    """Return the breaches of each rule.

    A module is read and parsed once, for all rules, and forgotten before the next module.
    """
    found: dict[Rule, list[str]] = {rule: [] for rule, _ in RULES}
    for path in MODULES:
        for rule, paths in RULES:
            try:
                if path in paths:
                    rule(path)
            except AssertionError as breach:
                found[rule].append(f"{label(path)}: {breach}")
    return found


def each(paths: list[Path]) -> Callable[[Rule], Callable[[], None]]:
    """Return a decorator that turns a rule into one test, which reports every breach."""

    def decorate(rule: Rule) -> Callable[[], None]:
        RULES.append((rule, frozenset(paths)))

        def test() -> None:
            assert not breaches()[rule], "\n".join(breaches()[rule])

        test.__doc__ = rule.__doc__
        return test

    return decorate


@each(MODULES)
def test_modules_functions_and_lines_are_short(path: Path) -> None:
    """A module has at most 500 lines (tests 900), a function 70, and a line 100 columns."""
    lines = source(path).splitlines()
    assert len(lines) <= (TEST_MODULE_LINES if "tests" in path.parts else MODULE_LINES)
    wide = [number for number, line in enumerate(lines, 1) if len(line) > LINE_COLUMNS]
    assert not wide, f"lines over {LINE_COLUMNS} columns: {wide}"
    long = [
        node.name
        for node in functions(path)
        if (node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LINES
    ]
    assert not long, f"functions over {FUNCTION_LINES} lines: {long}"


@each(PRODUCT)
def test_what_is_public_is_explained(path: Path) -> None:
    """Modules, public classes and public functions have docstrings."""
    assert ast.get_docstring(tree(path)) or not source(path).strip(), "no module docstring"
    silent = [
        node.name
        for node in nodes(path)
        if isinstance(node, Function | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
        and not _is_local(node, path)
    ]
    assert not silent, f"no docstring: {silent}"


def _is_local(node: ast.AST, path: Path) -> bool:
    """Return whether a function or class is nested in a function."""
    return any(
        node is inner
        for function in functions(path)
        for inner in ast.walk(function)
        if inner is not function
    )


@each(MODULES)
def test_everything_is_annotated(path: Path) -> None:
    """Every argument and every return value has a type annotation."""
    bare = []
    for node in functions(path):
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        arguments += [one for one in (node.args.vararg, node.args.kwarg) if one is not None]
        untyped = [
            one.arg
            for one in arguments
            if one.annotation is None and one.arg not in ("self", "cls", "mcs", "_")
        ]
        if untyped or (node.returns is None and node.name != "__init__"):
            bare.append(f"{node.name}({', '.join(untyped)})")
    assert not bare, f"not annotated: {bare}"


@each(MODULES)
def test_nothing_is_left_for_later(path: Path) -> None:
    """The code has no reminders, skipped tests, or type errors silenced without a reason."""
    text = source(path)
    words = "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X"))
    assert not re.findall(rf"\b(?:{words})\b", text)
    assert not re.search(r"mark\.(?:skip|xfail)|pytest\.(?:skip|xfail)\(", text)
    for ignored in re.findall("# type: ignor" + "e.*", text):
        assert re.match("# type: ignor" + r"e\[[a-z, -]+\]  # \S+", ignored), (
            f"no reason: {ignored}"
        )


NAMELESS = {"one", "found", "told", "both", "so_far", "there"}
"""Names that do not say what a value is."""


@each(
    [path for path in PRODUCT if path.relative_to(ROOT).parts[0] not in ("benchmarks", "examples")]
)
def test_values_have_names(path: Path) -> None:
    """Variables and parameters have none of the meaningless names in NAMELESS."""
    nameless = [
        node.lineno
        for node in nodes(path)
        if (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in NAMELESS)
        or (isinstance(node, ast.arg) and node.arg in NAMELESS)
    ]
    assert not nameless, f"lines {nameless}"


@each([path for path in PRODUCT if label(path).startswith("coordinator_server")])
def test_comprehensions_leave_parameters_alone(path: Path) -> None:
    """No comprehension gives another meaning to the name of a parameter of its function."""
    found = [
        f"line {name.lineno}: {name.id}"
        for function in functions(path)
        for names in [{node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}]
        for comprehension in ast.walk(function)
        if isinstance(comprehension, ast.comprehension)
        for name in ast.walk(comprehension.target)
        if isinstance(name, ast.Name) and name.id in names
    ]
    assert not found


@each(PRODUCT)
def test_only_the_doors_catch_everything(path: Path) -> None:
    """Only error boundaries, such as the dispatcher and the group's task, swallow any exception.

    Any other broad handler must raise the exception again.
    """
    wide = [
        handler.lineno
        for handler in nodes(path)
        if isinstance(handler, ast.ExceptHandler)
        and (handler.type is None or _names(handler.type) & {"Exception", "BaseException"})
        and not _raises_again(handler)
    ]
    assert not wide or label(path) in ERROR_BOUNDARIES, f"lines {wide}"


def _raises_again(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def _names(node: ast.expr) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


@each(TESTS)
def test_each_test_says_what_holds(path: Path) -> None:
    """Every test has a docstring that states the behaviour."""
    for node in functions(path):
        if node.name.startswith("test_"):
            sentence = ast.get_docstring(node)
            assert sentence, f"{node.name} has no docstring"
            assert sentence.endswith("."), f"{node.name}: not a sentence"


@each(TESTS)
def test_only_single_tests_in_real_time_are_run_once_more(path: Path) -> None:
    """The marker for real-time tests is only on functions that depend on time."""
    marks = [
        node.attr
        for node in nodes(path)
        if isinstance(node, ast.Attribute) and node.attr in ("real_time", "flaky")
    ]
    on_functions = [
        decorator
        for node in functions(path)
        for decorator in node.decorator_list
        if marks and ast.unparse(decorator) == "pytest.mark.real_time"
    ]
    assert marks == ["real_time"] * len(on_functions)
    assert not marks or not {"unit", "codec", "sim"} & set(path.relative_to(ROOT).parts)


@each([path for path in MODULES if "unit" in path.parts])
def test_unit_tests_do_not_sleep(path: Path) -> None:
    """Unit tests set clocks instead of sleeping; asyncio.sleep(0) is allowed."""
    naps = [
        node.lineno
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "sleep"
        and not (isinstance(node.args[0], ast.Constant) and node.args[0].value == 0)
    ]
    assert not naps, f"lines {naps}"


@each(MODULES)
def test_no_path_of_one_machine(path: Path) -> None:
    """No file refers to a home or working directory of one machine."""
    places = "|".join(("ro" + "ot", "ho" + "me", "wo" + "rk", "Us" + "ers"))
    assert not re.findall(rf"(?:^|[^A-Za-z0-9_.])/(?:{places})/\S*", source(path))


FORBIDDEN_IMPORTS = {"unit": "sim", "sim": "unit", "harness": "(?:sim|unit)"}
"""The packages of tests that a package of tests does not import."""


def test_unit_tests_simulations_and_harness_are_apart() -> None:
    """Unit tests and simulations import `tests.harness`, but not each other."""
    crossing = [
        label(path)
        for name, others in FORBIDDEN_IMPORTS.items()
        for path in (ROOT / "tests" / name).rglob("*.py")
        if re.search(rf"^ *(?:from|import) tests\.{others}\b", path.read_text(), re.MULTILINE)
    ]
    assert crossing == []


def test_nothing_imports_a_test_module() -> None:
    """Code that several test modules use is in a separate module, not in a test module."""
    test_module = re.compile(r"(?:from|import) tests\.(?:\w+\.)*test_")
    found = [
        f"{label(path)}: {line}"
        for path in MODULES
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith(("from tests.", "import tests.")) and test_module.match(line)
    ]
    assert not found
