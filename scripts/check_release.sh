#!/usr/bin/env bash
# Checks of a release: known vulnerabilities of what is installed with it, and a software bill of materials (CycloneDX).
#   scripts/check_release.sh [sbom.json]
set -euo pipefail
cd "$(dirname "$0")/.."
(. scripts/setup.sh dev)
out=${1:-sbom.json}
list=$(mktemp)
trap 'rm -f "$list"' EXIT
.venv/bin/pip freeze --exclude-editable | grep -v '^anyorder' >"$list"
.venv/bin/python scripts/bill_of_materials.py "$out"
.venv/bin/pip-audit --requirement "$list" --no-deps --disable-pip
