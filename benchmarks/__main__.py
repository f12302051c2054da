"""All benchmarks that need nothing but this checkout: `make bench`, or `python -m benchmarks`.

CPU is the figure to read; wall time carries the noise of whatever else the machine does.
"""

from __future__ import annotations

import sys

from benchmarks import appending, broker, codec


def main() -> int:
    """Print all tables."""
    return codec.main() or appending.main() or broker.main()


if __name__ == "__main__":
    sys.exit(main())
