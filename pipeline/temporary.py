"""Temporary folders that are removed when the process ends."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path


def temporary_folder(prefix: str) -> Path:
    """Create a folder whose name begins with `prefix`; it is removed when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
