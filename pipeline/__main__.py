"""`python -m pipeline`: the same command as `coordinator-server pipeline`."""

from __future__ import annotations

import sys

from pipeline.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
