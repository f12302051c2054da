"""Dynamic settings of Kafka without effect here; part of the table of settings.

These settings are checked, stored and described, so that tools can set them as in Kafka: threads,
the cleaner's buffers, tiered storage, Kerberos, Java's TLS.
"""

from coordinator_server.config.rows import a_list as _list
from coordinator_server.config.rows import boolean as _boolean
from coordinator_server.config.rows import double as _double
from coordinator_server.config.rows import integer as _int
from coordinator_server.config.rows import long as _long
from coordinator_server.config.rows import string as _string
from storage.config_def import LONG_MAX, Kind, Setting

JMX_REPORTER = "org.apache.kafka.common.metrics.JmxReporter"
_DOUBLE_MAX = 1.7976931348623157e308
_SHORT = Setting("", Kind.SHORT, None, "")

# Formatting is off, so that each row of this table takes one or two lines.
# fmt: off
INERT_SETTINGS = (
    _int("num.network.threads", 3, "Threads of a listener that read and write.", least=1),
    _int("num.io.threads", 8, "Threads that handle requests.", least=1),
    _int("background.threads", 10, "Threads of background tasks.", least=1),
    _int("num.recovery.threads.per.data.dir", 2, "Threads that recover logs.", least=1),
    _int("num.replica.fetchers", 1, "Threads that replicate from each broker.", least=1),
    _int("log.cleaner.threads", 1, "Threads that compact logs."),
    _long("log.cleaner.dedupe.buffer.size", 134217728,
          "Memory for the keys of a compaction.")._replace(least=None),
    _int("log.cleaner.io.buffer.size", 524288, "Memory for the reads of a compaction."),
    _double("log.cleaner.io.buffer.load.factor", 0.9,
         "Fraction of the memory for keys that may be filled."),
    _double("log.cleaner.io.max.bytes.per.second", _DOUBLE_MAX, "Rate limit of the cleaner."),
    _list("metric.reporters", (JMX_REPORTER,), "Java classes that report metrics.")
        ._replace(may_be_empty=True),
    _list("config.providers", (), "Java classes that resolve values of settings.",
          may_be_empty=True),
    _boolean("follower.fetch.last.tiered.offset.enable", False,
             "Whether a new replica starts at the end of the remote tier."),
    _int("remote.fetch.max.wait.ms", 500, "Longest wait for the remote tier.", least=1),
    _long("remote.list.offsets.request.timeout.ms", 30000,
          "Longest wait for offsets of the remote tier.", least=1),
    _long("remote.log.index.file.cache.total.size.bytes", 1073741824,
          "Size of the cache of indexes of the remote tier.", least=1),
    _int("remote.log.manager.copier.thread.pool.size", 10,
         "Threads that copy to the remote tier.", least=1),
    _int("remote.log.manager.expiration.thread.pool.size", 10,
         "Threads that delete from the remote tier.", least=1),
    _int("remote.log.manager.follower.thread.pool.size", 2,
         "Threads of followers for the remote tier.", least=1),
    _int("remote.log.reader.threads", 10, "Threads that read from the remote tier.", least=1),
    _long("remote.log.manager.copy.max.bytes.per.second", LONG_MAX,
          "Rate limit of copies to the remote tier.", least=1),
    _long("remote.log.manager.fetch.max.bytes.per.second", LONG_MAX,
          "Rate limit of reads from the remote tier.", least=1),
    _string("sasl.mechanism.inter.broker.protocol", "GSSAPI", "SASL mechanism between brokers."),
    _string("sasl.kerberos.kinit.cmd", "/usr/bin/kinit", "Command of Kerberos."),
    _long("sasl.kerberos.min.time.before.relogin", 60000, "Shortest time between logins.")
        ._replace(least=None),
    _list("sasl.kerberos.principal.to.local.rules", ("DEFAULT",),
          "How Kerberos principals become user names."),
    _string("sasl.kerberos.service.name", None, "Kerberos principal of the broker."),
    _double("sasl.kerberos.ticket.renew.jitter", 0.05, "Random part of the renewal time."),
    _double("sasl.kerberos.ticket.renew.window.factor", 0.8,
         "Fraction of a ticket's lifetime after which it is renewed."),
    _SHORT._replace(name="sasl.login.refresh.buffer.seconds", default=300,
          meaning="How long before its end a login is refreshed."),
    _SHORT._replace(name="sasl.login.refresh.min.period.seconds", default=60,
          meaning="Shortest time between refreshes of a login."),
    _double("sasl.login.refresh.window.factor", 0.8,
         "Fraction of a login's lifetime after which it is refreshed."),
    _double("sasl.login.refresh.window.jitter", 0.05, "Random part of the refresh time."),
    _string("ssl.endpoint.identification.algorithm", "https",
            "How clients of TLS check the name of a server."),
    Setting("ssl.engine.factory.class", Kind.CLASS, None, "Java class that creates TLS engines."),
    _string("ssl.keymanager.algorithm", "SunX509", "Algorithm of Java's key manager."),
    _string("ssl.provider", None, "Java's security provider."),
    _string("ssl.secure.random.implementation", None, "Java's source of random numbers."),
    _string("ssl.trustmanager.algorithm", "PKIX", "Algorithm of Java's trust manager."),
)
# fmt: on

REPLICATION_QUOTAS: dict[str, Setting] = {
    name: Setting(name, Kind.LONG, None, meaning, 0, LONG_MAX)
    for name, meaning in (
        ("leader.replication.throttled.rate", "Rate limit of replication by leaders."),
        ("follower.replication.throttled.rate", "Rate limit of replication by followers."),
        ("replica.alter.log.dirs.io.max.bytes.per.second", "Rate limit of moves on the disk."),
    )
}
"""Dynamic broker configs that have no static setting (Kafka's QuotaConfig)."""
