"""`make bench`, or `python -m benchmarks`: see `benchmarks.guard`."""

from __future__ import annotations

import sys

from benchmarks.guard import main

if __name__ == "__main__":
    sys.exit(main())
