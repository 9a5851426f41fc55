#!/usr/bin/env bash
# Translate a sentence with the shipped model and show the order it was written in:
#   ./translate.sh "Ein Hund läuft am Strand."
#   ./translate.sh "A dog runs on the beach." --to de
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
(cd "$here" && . scripts/setup.sh "")
for argument in "$@"; do
    case $argument in --to | --to=* | -t | --help) exec "$here/.venv/bin/anyorder" translate --show "$@" ;; esac
done
exec "$here/.venv/bin/anyorder" translate --show --to en "$@"
