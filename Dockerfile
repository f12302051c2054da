# The broker as an image that stands in for apache/kafka on one machine; see docs/docker.md.
# `docker build .` makes the broker; the target `clients` is kafka-python, for the demo and the tests.

FROM python:3.11-slim-bookworm AS build
WORKDIR /source
COPY pyproject.toml requirements.lock README.md LICENSE CHANGELOG.md ./
COPY coordinator_server coordinator_server
COPY protocol protocol
COPY storage storage
# The environment gets no pip of its own: the one of this stage installs into it.
RUN python -m venv --without-pip /opt/coordinator-server \
    && python -m pip --python /opt/coordinator-server/bin/python install --no-cache-dir --compile \
    -c requirements.lock '.[oauthbearer]' \
    && find /opt/coordinator-server -name '*.pyx' -o -name '*.pxd' -o -name '*.[ch]' | xargs rm -f


FROM python:3.11-slim-bookworm AS clients
COPY requirements.lock /opt/clients/
RUN python -m venv --without-pip /opt/clients \
    && python -m pip --python /opt/clients/bin/python install --no-cache-dir --compile \
    -c /opt/clients/requirements.lock kafka-python pytest pytest-asyncio
ENV PATH=/opt/clients/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /clients
USER 1000


FROM python:3.11-slim-bookworm
# The user, the directories and the scripts of images of Kafka, so that volumes, mounts and commands fit.
COPY docker /
RUN useradd --uid 1000 --create-home --shell /bin/bash appuser \
    && mkdir -p /var/lib/kafka/data /var/lib/kafka/security /tmp/kraft-combined-logs /tmp/kafka-logs /mnt/shared/config /bitnami/kafka/data \
    && chown -R appuser /var/lib/kafka /tmp/kraft-combined-logs /tmp/kafka-logs /bitnami /etc/confluent/docker
COPY --from=build /opt/coordinator-server /opt/coordinator-server
# Kafka's scripts without a JVM, under their names and at their places; Confluent's have no `.sh`.
RUN mkdir -p /opt/kafka/bin /opt/bitnami/kafka && ln -s /opt/kafka/bin /opt/bitnami/kafka/bin \
    && python=/opt/coordinator-server/bin/python scripts=coordinator_server.container.scripts \
    && for name in $($python -P -m $scripts --names); do \
    printf '#!/bin/sh\nexec %s -P -m %s %s "$@"\n' $python $scripts $name >/opt/kafka/bin/$name.sh \
    && chmod 755 /opt/kafka/bin/$name.sh && ln -s /opt/kafka/bin/$name.sh /usr/bin/$name; done
ENV PATH=/opt/coordinator-server/bin:/opt/kafka/bin:$PATH PYTHONDONTWRITEBYTECODE=1
USER appuser
# Scripts of others write into it, as in confluentinc/cp-kafka.
WORKDIR /home/appuser
EXPOSE 9092
VOLUME ["/var/lib/kafka/data"]
HEALTHCHECK --interval=5s --timeout=5s --start-period=20s --retries=3 \
    CMD ["/opt/coordinator-server/bin/python", "-I", "-S", "/opt/coordinator-server/lib/python3.11/site-packages/coordinator_server/container/healthcheck.py"]
# In exec form: the broker is process 1 and gets SIGTERM itself. No shell stands between.
ENTRYPOINT ["/opt/coordinator-server/bin/python", "-P", "-m", "coordinator_server.container.entrypoint"]
