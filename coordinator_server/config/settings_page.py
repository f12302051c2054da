"""docs/settings.md: the table of settings as Markdown, which `make settings` writes."""

from __future__ import annotations

from coordinator_server.config.dynamic_settings import DYNAMIC, ONLY_PER_BROKER
from coordinator_server.config.settings import SECTIONS, TOPIC_CONFIGS, WITHOUT_EFFECT
from protocol import REFERENCE_VERSION
from storage.config_def import INT_MAX, LONG_MAX, Setting, render

_HEAD = "| name | type | default | range | change | meaning |"


def describe() -> str:
    """Return the table as Markdown, for docs/settings.md."""
    lines = [
        "# Settings",
        "",
        f"Names and defaults are those of Apache Kafka {REFERENCE_VERSION}; settings that only",
        "this broker has are marked with (ours). `coordinator-server settings` prints this page.",
        "Precedence: default < properties file < environment variable < `--set`. In the name of",
        "a variable such as `KAFKA_GROUP_MAX_SIZE`, `_` becomes `.`, `__` becomes `_`, and `___`",
        "becomes `-`. At start, one warning line lists settings of Kafka that are not in these",
        "tables or have no effect. If neither Kafka nor this broker has a setting, the line",
        "suggests the closest name, and with `serve --strict` the setting is an error.",
        "",
        "The column *change* is empty if a setting cannot change while the broker runs. It has",
        "`broker` if the setting can change for a single broker, and `broker, all` if it can also",
        "change for all brokers together; see [dynamic-configs.md](dynamic-configs.md).",
    ]
    for title, section in SECTIONS:
        lines += ["", f"## {title}", "", _HEAD]
        lines.append("|---|---|---|---|---|---|")
        for setting in section:
            meaning = setting.meaning
            if setting.name in WITHOUT_EFFECT:
                meaning += " No effect."
            if setting.name in TOPIC_CONFIGS:
                meaning += f" Topic config: `{TOPIC_CONFIGS[setting.name]}`."
            cells = (
                f"`{setting.name}`",
                setting.kind.name.lower(),
                render(setting.default) or "(none)",
                _range(setting),
                _change(setting.name),
                meaning,
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _change(name: str) -> str:
    """Return the scope of run-time changes of a setting: "broker", "broker, all", or ""."""
    if name in ONLY_PER_BROKER:
        return "broker"
    return "broker, all" if name in DYNAMIC else ""


def _range(setting: Setting) -> str:
    """Return the range of a setting as text."""
    if setting.choices:
        return ", ".join(setting.choices)
    if setting.least is None:
        return ""
    if setting.most in (INT_MAX, LONG_MAX):
        return f"{setting.least} or more"
    besides = "" if setting.besides is None else f", or {setting.besides}"
    return f"{setting.least} to {setting.most}{besides}"
