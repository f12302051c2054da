"""Folders that go when this process does."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path


def temporary_folder(prefix: str) -> Path:
    """A new one, its name beginning with `prefix`; what lies in it at the end is removed too."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
