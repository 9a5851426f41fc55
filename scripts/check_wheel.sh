#!/usr/bin/env bash
# Build sdist and wheel, install the wheel into an empty environment, and translate with it.
# The packages it depends on are borrowed from .venv (a path file), so that this takes seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
(. scripts/setup.sh dev)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
.venv/bin/python -m build --outdir "$work/dist" . >"$work/build.log" 2>&1 || { tail -30 "$work/build.log"; exit 1; }

tar -tzf "$work"/dist/*.tar.gz >"$work/sdist.txt"
.venv/bin/python -m zipfile -l "$work"/dist/*.whl >"$work/wheel.txt"
for name in $(git ls-files src/anyorder/shipped src/anyorder/traces/web | sed 's,^src/,,'); do
    grep -q "/src/$name\$" "$work/sdist.txt" || { echo "the sdist lacks $name"; exit 1; }
    grep -q "^$name " "$work/wheel.txt" || { echo "the wheel lacks $name"; exit 1; }
done

.venv/bin/python -m venv "$work/env"
"$work/env/bin/pip" uninstall --quiet --yes setuptools # an old one that comes with some Pythons
site=$("$work/env/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$site/borrowed.pth"
"$work/env/bin/pip" install --quiet --disable-pip-version-check --no-deps --ignore-installed "$work"/dist/*.whl
cd "$work"
env/bin/python -c "import anyorder; assert anyorder.__file__.startswith('$work'), anyorder.__file__"
if command -v cc >/dev/null; then
    env/bin/python -c 'from importlib.util import find_spec as f; assert f("anyorder.native._kernels"), "no kernels"'
fi
env/bin/pip check
env/bin/anyorder models | tee models.txt
if grep -q '^de-en' models.txt; then
    env/bin/anyorder translate "Ein Hund läuft am Strand." --to en --show
    env/bin/anyorder translate "A dog is running on the beach." --to de
fi
