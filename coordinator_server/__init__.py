"""A Kafka broker without a JVM: sockets, dispatch, topics and the group coordinator.

The public API is `coordinator_server.testing`, `__version__` and the command `coordinator-server`;
all other names may change with any release. This module imports almost nothing, because
`coordinator_server.testing` runs inside the user's process and must not import the broker.
"""

import os.path
import sys

__version__ = "0.1.0"
__all__ = ["testing"]


class _InternalModules:
    """Import hook that explains why modules such as `coordinator_server.broker` are not public.

    An installed package keeps `protocol` and `storage` in a folder that only the command puts on
    sys.path. Without this hook the import error would name a module that the user did not import.
    """

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Raise ImportError for a module of the broker unless its packages can be found."""
        package, _, module = name.partition(".")
        if package != __name__ or not module or module.split(".")[0] in _IMPORTABLE_ALONE:
            return
        if _PACKAGES not in sys.path:
            raise ImportError(
                f"{name} is internal. Public are coordinator_server.testing and the command"
                f" coordinator-server; to look inside, put {_PACKAGES} on sys.path",
                name=name,
            )


_IMPORTABLE_ALONE = ("testing", "container", "__main__")
# `_packages` exists only in a wheel.
_PACKAGES = os.path.join(os.path.dirname(os.path.realpath(__file__)), "_packages")

if os.path.isdir(_PACKAGES):
    sys.meta_path.insert(0, _InternalModules)
