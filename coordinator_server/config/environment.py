"""Reads settings from environment variables, as Kafka's image does."""

from collections.abc import Mapping

# Variables that Kafka's image uses for the JVM, logging and the storage tool, not as broker
# settings.
IMAGE_VARIABLES = (
    "KAFKA_HEAP_OPTS",
    "KAFKA_OPTS",
    "KAFKA_JVM_PERFORMANCE_OPTS",
    "KAFKA_GC_LOG_OPTS",
    "KAFKA_JMX_OPTS",
    "KAFKA_JMX_PORT",
    "KAFKA_JMX_HOSTNAME",
    "KAFKA_LOG4J_OPTS",
    "KAFKA_LOG4J_ROOT_LOGLEVEL",
    "KAFKA_LOG4J_LOGGERS",
    "KAFKA_TOOLS_LOG4J_LOGLEVEL",
    "KAFKA_VERSION",
    "KAFKA_HOME",
    # Variables of Kafka's images for secured listeners. container/image_variables.py translates
    # them to broker settings.
    "KAFKA_SSL_KEYSTORE_FILENAME",
    "KAFKA_SSL_KEYSTORE_CREDENTIALS",
    "KAFKA_SSL_KEY_CREDENTIALS",
    "KAFKA_SSL_TRUSTSTORE_FILENAME",
    "KAFKA_SSL_TRUSTSTORE_CREDENTIALS",
    "KAFKA_CLIENT_USERS",
    "KAFKA_CLIENT_PASSWORDS",
    "KAFKA_CLIENT_LISTENER_NAME",
    "KAFKA_INTER_BROKER_USER",
    "KAFKA_INTER_BROKER_PASSWORD",
    "KAFKA_CONTROLLER_USER",
    "KAFKA_CONTROLLER_PASSWORD",
    "KAFKA_CERTIFICATE_PASSWORD",
    "KAFKA_TLS_TYPE",
    "KAFKA_TLS_CLIENT_AUTH",
    "KAFKA_TLS_TRUSTSTORE_FILE",
)


def settings_in_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings in KAFKA_* variables, by the rule of Kafka's image.

    `_` becomes `.`, `__` becomes `_`, `___` becomes `-`: KAFKA_GROUP_MAX_SIZE is group.max.size.
    """
    settings: dict[str, str] = {}
    for variable, value in sorted(environment.items()):
        if variable.startswith("KAFKA_") and variable not in IMAGE_VARIABLES:
            name = variable[len("KAFKA_") :].lower()
            name = name.replace("___", "-").replace("__", "\0").replace("_", ".")
            settings[name.replace("\0", "_")] = value
    return settings
