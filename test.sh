#!/usr/bin/env bash
# Run all tests, or those named: ./test.sh tests/core -k beam. On all cores, a file on one of them.
set -euo pipefail
cd "$(dirname "$0")"
(. scripts/setup.sh dev)
exec .venv/bin/python -m pytest --numprocesses auto --dist loadfile "$@"
