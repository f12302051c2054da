"""The setting of --dev-security (docs/dev-security.md)."""

from __future__ import annotations

from storage.config_def import Kind, Setting

DEV_SETTINGS = (
    Setting(
        "dev.security.dir",
        Kind.STRING,
        None,
        "Directory (ours) with an authority, certificates, users and settings of clients, which "
        "are made at the first start. With it listeners of the protocol PLAINTEXT are SASL_SSL "
        "and the authorizer is on, see dev-security.md.",
    ),
)
