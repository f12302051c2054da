"""The entry point of the image, with other directories: `... SECRETS BITNAMI ARGUMENTS...`."""

from __future__ import annotations

import sys

from coordinator_server.container import entrypoint, image_variables

if __name__ == "__main__":
    secrets, bitnami = sys.argv[1:3]
    image_variables.SECRETS_DIRECTORY = secrets
    image_variables.BITNAMI_DIRECTORIES = (bitnami, bitnami)
    del sys.argv[1:3]
    entrypoint.run()
