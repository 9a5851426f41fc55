#!/usr/bin/env bash
# Checks of a release: known vulnerabilities of what is installed with it, and a software bill of materials (CycloneDX).
#   scripts/check_release.sh [sbom.json]
# What could not be looked up is a failure, not a pass: it needs a network that reaches the database at pypi.org.
set -euo pipefail
cd "$(dirname "$0")/.."
(. scripts/setup.sh dev)
out=${1:-sbom.json}
list=$(mktemp)
trap 'rm -f "$list"' EXIT
.venv/bin/python scripts/bill_of_materials.py "$out"
echo "$out: $(grep -c '"purl"' "$out") packages" >&2
# The database knows torch 2.13.0, not its build 2.13.0+cpu.
.venv/bin/pip freeze --exclude-editable | grep -v '^anyorder' | sed 's/+[A-Za-z0-9.]*$//' >"$list"
.venv/bin/pip-audit --requirement "$list" --no-deps --disable-pip --strict
