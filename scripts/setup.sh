# Sourced by translate.sh and test.sh: makes .venv with everything in it, once. Argument: the extras to install.
set -euo pipefail

extras=${1:-}
root=$(pwd)

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python3.14 python; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "anyorder needs Python 3.11 or newer, but found only: $(python3 --version 2>&1 || echo 'no python3')." >&2
    echo "Install one (https://www.python.org/downloads) or name it: PYTHON=/path/to/python3.11 $0" >&2
    exit 1
}

# What was installed is remembered: nothing is done again until what it was made from changes.
made_from() { cat pyproject.toml setup.py src/anyorder/native/kernels.c; }
stamp=.venv/installed-${extras:-base}
if ! made_from | cmp -s - "$stamp" && { [ -n "$extras" ] || ! made_from | cmp -s - .venv/installed-dev; }; then
    if [ ! -x .venv/bin/pip ]; then
        python=$(find_python)
        echo "Setting up .venv with $("$python" --version): this happens once and takes a minute or two." >&2
        rm -rf .venv
        "$python" -m venv .venv || {
            echo "Could not make a virtual environment; on Debian and Ubuntu: apt-get install python3-venv" >&2
            exit 1
        }
    fi
    # torch first: pip takes a CPU build of it where one is offered, and the rest is content with it.
    .venv/bin/pip install --quiet --disable-pip-version-check torch==2.13.0 >&2
    .venv/bin/pip install --quiet --disable-pip-version-check --editable "${root}${extras:+[$extras]}" >&2
    made_from >"$stamp"
fi
