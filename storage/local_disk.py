"""LocalDisk: the disk implementation for the current operating system."""

from __future__ import annotations

import sys

if sys.platform == "win32":
    from storage.portable_disk import PortableDisk as LocalDisk
else:
    from storage.posix_disk import PosixDisk as LocalDisk

__all__ = ["LocalDisk"]
