#!/usr/bin/env bash
# Build sdist and wheel, install the wheel into an empty environment, and translate with it.
# The packages it depends on are borrowed from .venv (a path file), so that this takes seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
(. scripts/setup.sh dev)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
.venv/bin/python -m build --outdir "$work/dist" . >"$work/build.log" 2>&1 || { tail -30 "$work/build.log"; exit 1; }

for name in $(git ls-files src/anyorder/shipped src/anyorder/web | sed 's,^src/,,'); do
    tar -tzf "$work"/dist/*.tar.gz | grep -q "/src/$name\$" || { echo "the sdist lacks $name"; exit 1; }
    .venv/bin/python -m zipfile -l "$work"/dist/*.whl | grep -q "^$name " || { echo "the wheel lacks $name"; exit 1; }
done

.venv/bin/python -m venv "$work/env"
site=$("$work/env/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$site/borrowed.pth"
"$work/env/bin/pip" install --quiet --disable-pip-version-check --no-deps --ignore-installed "$work"/dist/*.whl
cd "$work"
env/bin/python -c "import anyorder; assert anyorder.__file__.startswith('$work'), anyorder.__file__"
env/bin/pip check
env/bin/anyorder models
if env/bin/anyorder models | grep -q '^de-en'; then
    env/bin/anyorder translate "Ein Hund läuft am Strand." --to en --show
    env/bin/anyorder translate "A dog is running on the beach." --to de | grep -q '[a-z]'
fi
