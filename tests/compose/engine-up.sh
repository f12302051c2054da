#!/usr/bin/env bash
# Makes sure that there is a Docker engine, a compose command and the base image, then says so.
#
#   tests/compose/engine-up.sh
#
# Where Docker runs, it is used as it is. Where it does not, on Debian as root (a CI container), the
# packages are installed and an engine is started that leaves the machine's firewall alone: no
# default bridge, no packet filter rules. Networks of compose projects work all the same, published
# ports go through docker-proxy. Builds have to use `--network host` there. A base image that cannot
# be pulled is made from Debian's own packages: the same release, the same Python 3.11.
set -euo pipefail

base_image=python:3.11-slim-bookworm
state=${TMPDIR:-/tmp}/coordinator-server-engine
mkdir -p "$state"

give_up() {
  echo "no Docker: $1" >&2
  exit 1
}

install_packages() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || give_up "$1 is missing, install it first"
  apt-get update -qq >"$state/apt.log" 2>&1 || give_up "apt-get update failed, see $state/apt.log"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${@:2}" \
    >>"$state/apt.log" 2>&1 || give_up "apt-get install failed, see $state/apt.log"
}

has_compose() {
  docker compose version >/dev/null 2>&1 || docker-compose version >/dev/null 2>&1
}

wait_for_engine() {
  for _ in $(seq 100); do
    docker info >/dev/null 2>&1 && return 0
    sleep 0.3
  done
  return 1
}

start_engine() {
  command -v dockerd >/dev/null || install_packages dockerd docker.io iptables
  docker info >/dev/null 2>&1 && return # the package may have started it
  # A session of its own, with no stream of ours: it outlives this script and holds up nobody.
  setsid dockerd --bridge=none --iptables=false --ip6tables=false \
    --data-root "$state/data" --exec-root "$state/exec" --pidfile "$state/dockerd.pid" \
    >"$state/dockerd.log" 2>&1 </dev/null &
  wait_for_engine || give_up "the engine did not start, see $state/dockerd.log"
}

# The Debian mirror that this machine itself uses.
mirror() {
  cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    sed -nE 's/^URIs: *([^ ]+).*/\1/p; s/^deb (\[[^]]*\] )?(http[^ ]+) .*/\2/p' |
    grep -v security | head -n 1
}

make_base_image() {
  local root=$state/base
  command -v debootstrap >/dev/null || install_packages debootstrap debootstrap
  rm -rf "$root"
  debootstrap --variant=minbase --include=python3,python3-venv,python3-pip,ca-certificates \
    bookworm "$root" "$(mirror)" >"$state/debootstrap.log" 2>&1 ||
    give_up "debootstrap failed, see $state/debootstrap.log"
  # As in the official image: the command is `python`, and pip may install where it likes.
  ln -sf python3 "$root/usr/bin/python"
  rm -f "$root"/usr/lib/python3.*/EXTERNALLY-MANAGED
  rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
  # Packages come from where this machine gets them, trusted as this machine does.
  for file in /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
    [ ! -f "$file" ] || cp "$file" "$root$file"
  done
  for file in "$HOME/.config/pip/pip.conf" "$HOME/.pip/pip.conf"; do
    [ ! -f "$file" ] || cp "$file" "$root/etc/pip.conf"
  done
  tar -C "$root" -c . | docker import - "$base_image" >/dev/null
  rm -rf "$root"
}

command -v docker >/dev/null && docker info >/dev/null 2>&1 || start_engine
has_compose || install_packages "docker compose" docker-compose
if ! docker image inspect "$base_image" >/dev/null 2>&1; then
  timeout 60 docker pull -q "$base_image" >/dev/null 2>&1 || make_base_image
fi
echo "Docker $(docker version --format '{{.Server.Version}}') is ready, with $base_image"
