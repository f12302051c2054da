"""Reads fault rules from a file: `serve --faults FILE`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from coordinator_server.faults.faults import MOST_RULES
from coordinator_server.faults.rule import FaultError, FaultRule


def read_rules(path: str) -> list[dict[str, Any]]:
    """Return the checked rules of a .yaml, .json or .toml file: a list called `faults`.

    YAML needs the package PyYAML. Raises FaultError, which names the file and the rule.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FaultError(f"{path} cannot be read: {error}") from error
    content = _content(path, text)
    rules = content.get("faults") if isinstance(content, dict) and len(content) == 1 else content
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise FaultError(f"{path} is not a list of rules called faults")
    if len(rules) > MOST_RULES:
        raise FaultError(f"{path} has {len(rules)} rules, the limit is {MOST_RULES}")
    for number, rule in enumerate(rules, 1):
        try:
            FaultRule(number, rule, 0)
        except FaultError as error:
            raise FaultError(f"{path}, rule {number}: {error}") from error
    return rules


def _content(path: str, text: str) -> object:
    """Return the content of a file by its suffix. Raises FaultError."""
    suffix = Path(path).suffix
    try:
        if suffix == ".json":
            return json.loads(text)
        if suffix == ".toml":
            import tomllib

            return tomllib.loads(text)
        if suffix in (".yaml", ".yml"):
            import yaml

            return _yaml(yaml, text)
    except ImportError as error:
        raise FaultError(f"{path}: YAML needs PyYAML; TOML and JSON need no package") from error
    except RecursionError as error:
        raise FaultError(f"{path} is nested too deeply") from error
    except ValueError as error:  # json.JSONDecodeError, tomllib.TOMLDecodeError
        raise FaultError(f"{path} is not valid: {error}") from error
    raise FaultError(f"{path} ends in none of .yaml, .json, .toml")


def _yaml(yaml: Any, text: str) -> object:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
