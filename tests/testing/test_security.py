"""With `Broker(security=...)` the Python clients connect by `client_config`, and others cannot."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import aiokafka
import confluent_kafka
import kafka as kafka_python
import pytest
from confluent_kafka.admin import AdminClient

from tests.support import Broker
from tests.testing.support import outcomes

pytest_plugins = ["pytester"]

SECONDS = 30
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    """Start a broker for the tests of this module."""
    with Broker(security="sasl_ssl") as broker:
        yield broker


@pytest.fixture(params=["ssl", "sasl_plaintext"])
def other(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """Start a broker with one of the other protocols."""
    with Broker(security=request.param) as broker:
        yield broker


def use_kafka_python(broker: Broker, mechanism: str = "SCRAM-SHA-512") -> None:
    """Produce and consume with kafka-python."""
    topic = f"kafka-python-{mechanism}"
    config = broker.client_config("kafka-python", mechanism=mechanism)
    with kafka_python.KafkaProducer(**config) as producer:
        producer.send(topic, b"a").get(SECONDS)
    consumer = kafka_python.KafkaConsumer(
        topic, **config, group_id=f"group-{topic}", auto_offset_reset="earliest"
    )
    assert consumer.poll(SECONDS * 1000)
    consumer.close()


def use_confluent(broker: Broker, mechanism: str = "SCRAM-SHA-512") -> None:
    """Produce and consume with confluent-kafka."""
    topic = f"confluent-{mechanism}"
    config = broker.client_config("confluent", user="bob", mechanism=mechanism)
    producer = confluent_kafka.Producer(config)
    producer.produce(topic, b"a")
    assert producer.flush(SECONDS) == 0
    consumer = confluent_kafka.Consumer(
        {**config, "group.id": f"group-{topic}", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    message = consumer.poll(SECONDS)
    assert message is not None
    assert message.error() is None
    consumer.close()


async def use_aiokafka(broker: Broker, mechanism: str = "SCRAM-SHA-512") -> None:
    """Produce and consume with aiokafka."""
    topic = f"aiokafka-{mechanism}"
    config = broker.client_config("aiokafka", mechanism=mechanism)
    async with aiokafka.AIOKafkaProducer(**config) as producer:
        await producer.send_and_wait(topic, b"a")
    consumer = aiokafka.AIOKafkaConsumer(
        topic, **config, group_id=f"group-{topic}", auto_offset_reset="earliest"
    )
    async with consumer:
        assert (await consumer.getone()).value == b"a"


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_clients_come_by_every_mechanism(secured: Broker, mechanism: str) -> None:
    """Over SASL_SSL the clients authenticate with every mechanism."""
    use_kafka_python(secured, mechanism)
    use_confluent(secured, mechanism)
    await use_aiokafka(secured, mechanism)


async def test_clients_come_by_the_other_protocols(other: Broker) -> None:
    """The clients connect with a certificate, and with a password without TLS."""
    use_kafka_python(other)
    use_confluent(other)
    await use_aiokafka(other)


def refused(config: dict[str, str]) -> bool:
    """Check that a client gets no response, and return True."""
    with pytest.raises(confluent_kafka.KafkaException):
        AdminClient(config).list_topics(timeout=1)
    return True


def test_others_are_refused(secured: Broker) -> None:
    """Clients without TLS, with a wrong password or an unknown user are refused."""
    config = secured.client_config("confluent")
    assert refused({"bootstrap.servers": secured.bootstrap_servers})
    assert refused({**config, "sasl.password": secured.users["bob"]})
    assert refused({**config, "sasl.username": "mallory"})
    with pytest.raises(ValueError, match="no user 'mallory', only admin, alice, bob"):
        secured.client_config("confluent", user="mallory")
    with pytest.raises(ValueError, match="none of kafka-python"):
        secured.client_config("librdkafka")
    with pytest.raises(ValueError, match="mechanism: 'PLAN' is none of SCRAM-SHA-512, SCRAM"):
        secured.client_config("java", mechanism="PLAN")
    assert not any(password in secured.log for password in secured.users.values())


def test_a_client_without_a_certificate_is_refused() -> None:
    """With protocol SSL a client must present a certificate."""
    with Broker(security="SSL") as broker:
        config = broker.client_config("confluent")
        assert AdminClient(config).list_topics(timeout=SECONDS) is not None
        for name in ("ssl.certificate.location", "ssl.key.location"):
            del config[name]
        assert refused(config)


def test_users_differ_and_acls_count() -> None:
    """An ACL for bob keeps alice out of the topic; after a reset everyone has access again."""
    acl = confluent_kafka.admin.AclBinding(
        confluent_kafka.admin.ResourceType.TOPIC,
        "orders",
        confluent_kafka.admin.ResourcePatternType.LITERAL,
        "User:bob",
        "*",
        confluent_kafka.admin.AclOperation.ALL,
        confluent_kafka.admin.AclPermissionType.ALLOW,
    )
    with Broker(security="sasl_ssl") as broker:
        broker.create_topic("orders")

        def topics(user: str) -> set[str]:
            admin = AdminClient(broker.client_config("confluent", user))
            return set(admin.list_topics(timeout=SECONDS).topics)

        assert topics("alice") == {"orders"}
        admin = AdminClient(broker.client_config("confluent", "admin"))
        admin.create_acls([acl])[acl].result(SECONDS)
        assert (topics("alice"), topics("bob")) == (set(), {"orders"})
        broker.reset()
        broker.create_topic("orders")
        assert topics("alice") == {"orders"}


def test_users_stay_over_restarts(tmp_path: Path) -> None:
    """client_config stays valid across restarts of a Broker object, with and without a data_dir."""
    for data_dir in (None, tmp_path / "data"):
        with Broker(security="sasl_ssl", data_dir=data_dir) as broker:
            users = broker.users
            broker.kill()
            broker.start()
            assert broker.users == users
            use_confluent(broker)
            directory = Path(broker.security_directory or "")
            assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        del broker
        assert not directory.exists()
    with Broker(security="sasl_ssl", data_dir=tmp_path / "data") as broker:
        assert broker.users != users
        for mechanism in MECHANISMS:
            config = broker.client_config("confluent", mechanism=mechanism)
            assert AdminClient(config).list_topics(timeout=SECONDS) is not None


def test_without_security() -> None:
    """Without security client_config gives the address, so tests need not know the protocol."""
    with Broker() as broker:
        address = broker.bootstrap_servers
        assert broker.client_config("kafka-python")["bootstrap_servers"] == address
        assert broker.users == {}
        assert broker.security_directory is None
        use_kafka_python(broker)
        use_confluent(broker)
    with pytest.raises(ValueError, match="security: 'tls' is none of ssl, sasl_plaintext"):
        Broker(security="tls")


@pytest.mark.alone
def test_it_costs_little() -> None:
    """A start takes less than twice the CPU time of a start without security."""

    def start_seconds(security: str | None) -> float:
        with Broker(security=security) as broker:
            return broker.cpu_seconds()

    plain, secured = [], []
    for _ in range(10):
        plain.append(start_seconds(None))
        secured.append(start_seconds("sasl_ssl"))
        if min(secured) < 2 * min(plain):
            return
    pytest.fail(f"CPU seconds without security: {plain}, with it: {secured}")


def test_the_option_of_the_plugin(pytester: pytest.Pytester) -> None:
    """With kafka_security the `kafka` fixture uses a secured broker."""
    pytester.makeini("[pytest]\nkafka_security = sasl_ssl")
    pytester.makepyfile(
        """
        from confluent_kafka.admin import AdminClient

        def test_secured(kafka):
            config = kafka.client_config("confluent")
            assert config["security.protocol"] == "SASL_SSL"
            assert AdminClient(config).list_topics(timeout=30) is not None
        """
    )
    arguments = ("-p", "no:cacheprovider", "-W", "ignore")
    assert outcomes(pytester.runpytest_subprocess(*arguments)) == {"passed": 1}
    result = pytester.runpytest_subprocess(*arguments, "-o", "kafka_security=tls")
    result.stderr.fnmatch_lines(["*kafka_security: 'tls' is none of*"])
