#!/usr/bin/env bash
# The unit tests on each Python that is found, but for the release in .venv, which `make test` uses; on
# other versions the main client tests as well. Says at the end which were tested and which were not
# found. With arguments: only these versions. With --list: print the versions that are found.
set -euo pipefail
cd "$(dirname "$0")/.."

# On the path (pyenv's shims are there for versions that are switched off), the system's, or installed
# by pyenv; not the very release of .venv.
find_python() {
  local python
  for python in "python$1" /usr/bin/"python$1" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python3; do
    if "$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version.split()[0] == sys.argv[1])' \
      "$own" 2>/dev/null; then
      echo "$python"
      return
    fi
  done
  return 1
}

own=$(.venv/bin/python -c 'import sys; print(sys.version.split()[0])')
versions=(3.11 3.12 3.13 3.14)
if [ "${1:-}" = --list ]; then
  for version in "${versions[@]}"; do
    ! find_python "$version" >/dev/null || echo "$version"
  done
  exit
fi
tested=() missing=()
[ $# -gt 0 ] || set -- "${versions[@]}"
for version; do
  if ! python=$(find_python "$version"); then
    missing+=("$version")
    continue
  fi
  echo "== Python $version"
  bin=.venv-$version/bin
  [ -x "$bin/python" ] || "$python" -m venv ".venv-$version"
  if [ ! "$bin/../installed" -nt requirements.lock ]; then
    "$bin/python" -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
    "$bin/python" -m pip install --quiet -c requirements.lock -e . --group test
    touch "$bin/../installed"
  fi
  tests=(tests/unit)
  [ "$version" = "${own%.*}" ] || tests+=(
    tests/testing tests/e2e/test_loops.py
    tests/clients/test_{kafka_python,confluent_kafka,aiokafka}.py
  )
  # Without the rules about our text and imports, whose tools are not installed.
  "$bin/python" -m pytest -q -p no:cacheprovider -n "${WORKERS:-4}" -m "not nightly and not alone" \
    --ignore=tests/unit/test_tidy.py --ignore=tests/unit/test_import_circles.py \
    "${tests[@]}"
  tested+=("$("$bin/python" -c 'import sys; print(sys.version.split()[0])')")
done
echo "Python: tested ${tested[*]:-none} beside $own; not found: ${missing[*]:-none}"
