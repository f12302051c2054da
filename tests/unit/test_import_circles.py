"""Circular imports of modules; import-linter checks the order of packages.

An import by name, `import_module(f"package.{name}")`, counts as an import of every module of the
package.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping

import grimp

from tests.support import ROOT

MOST_IN_A_CIRCLE = 3


def circles() -> list[set[str]]:
    """Return the sets of modules that import each other, directly or not."""
    graph = grimp.build_graph("coordinator_server", "protocol", "storage", "pipeline")
    imported = {one: graph.find_modules_directly_imported_by(one) for one in graph.modules}
    for importer, package in imported_by_name():
        imported[importer] |= {one for one in imported if one.startswith(package)} - {importer}
    importers: dict[str, set[str]] = defaultdict(set)
    for one, others in imported.items():
        for other in others:
            importers[other].add(one)
    # Kosaraju's algorithm: the backward pass starts at the module that the forward pass finishes
    # last.
    left: dict[str, None] = {}
    for one in imported:
        _visit(one, imported, left)
    found: dict[str, None] = {}
    circles = []
    for one in reversed(left):
        before = len(found)
        _visit(one, importers, found)
        circles.append(set(list(found)[before:]))
    return [members for members in circles if len(members) > 1]


def _visit(start: str, neighbours: Mapping[str, set[str]], left: dict[str, None]) -> None:
    """Add the modules reachable from `start` to `left`, each after those that it reaches."""
    seen, waiting = {start, *left}, [(start, iter(neighbours.get(start, ())))]
    if start in left:
        return
    while waiting:
        one, others = waiting[-1]
        following = next((other for other in others if other not in seen), None)
        if following is None:
            left[one] = None
            waiting.pop()
        else:
            seen.add(following)
            waiting.append((following, iter(neighbours.get(following, ()))))


def imported_by_name() -> Iterator[tuple[str, str]]:
    """Yield each module that imports by name, and the prefixes of the names."""
    for path in sorted((ROOT / "coordinator_server").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        constants = {
            node.targets[0].id: str(node.value.value)
            for node in tree.body
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and isinstance(node.value, ast.Constant)
        }
        constants["__package__"] = module.rpartition(".")[0]
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
                yield module, _beginning(node.args[0], constants)


def _beginning(name: ast.expr, constants: dict[str, str]) -> str:
    """Return the prefix of a name, up to the first part that is not constant."""
    if isinstance(name, ast.Constant):
        return str(name.value)
    assert isinstance(name, ast.JoinedStr), ast.unparse(name)
    beginning = ""
    for part in name.values:
        if isinstance(part, ast.Constant):
            beginning += str(part.value)
        elif isinstance(part, ast.FormattedValue) and ast.unparse(part.value) in constants:
            beginning += constants[ast.unparse(part.value)]
        else:
            break
    assert beginning, f"{ast.unparse(name)} may be any module"
    return beginning


def test_circles_are_small_and_stay_in_a_package() -> None:
    """At most three modules, all of one package, import each other."""
    found = circles()
    assert all(len(members) <= MOST_IN_A_CIRCLE for members in found), found
    assert all(len({one.rpartition(".")[0] for one in members}) == 1 for members in found), found
