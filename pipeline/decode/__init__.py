"""Records of the offsets topic into columns: vectorised where there are many, by hand where few.

`decode_arrow` takes Arrow in and gives Arrow out. Offset commits, nearly all that an offsets topic
holds, are read with numpy over Arrow's buffers; the rest goes record by record through `protocol`.
"""

from __future__ import annotations

from pipeline.decode.arrow import decode_arrow

__all__ = ["decode_arrow"]
