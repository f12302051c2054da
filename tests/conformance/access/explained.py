"""Cells that are answered otherwise than by a Kafka, and why."""

from __future__ import annotations

EXPLAINED: dict[str, str] = {}
"""Pattern of "case version grant" -> reason. All cells that match have to differ."""
