"""Decode records of the offsets topic into columns.

`decode_arrow` decodes an Arrow batch to another. Offset commits, nearly all records of an offsets
topic, are decoded with numpy on Arrow's buffers; all others one by one through `protocol`.
"""

from __future__ import annotations

from pipeline.decode.arrow import decode_arrow

__all__ = ["decode_arrow"]
