"""Quota settings. Part of the table of settings."""

from storage.config_def import INT_MAX, Kind, Setting

CONNECTION_RATE = "max.connection.creation.rate"

QUOTAS = (
    Setting("quota.window.num", Kind.INT, 11,
            "Samples that the quotas of clients look back on.", 1, INT_MAX),
    Setting("quota.window.size.seconds", Kind.INT, 1, "The length of each of them.", 1, INT_MAX),
    Setting("controller.quota.window.num", Kind.INT, 11,
            "Samples that the quotas of topic changes look back on.", 1, INT_MAX),
    Setting("controller.quota.window.size.seconds", Kind.INT, 1,
            "The length of each of them.", 1, INT_MAX),
    Setting(CONNECTION_RATE, Kind.INT, INT_MAX,
            "Most connections a second that are accepted; also of one listener, as "
            "`listener.name.NAME.max.connection.creation.rate`.", 0, INT_MAX),
)  # fmt: skip
