#!/usr/bin/env bash
# Makes a working environment: Python >= 3.11, .venv with Rekindle and its tools, Java >= 17.
#
# Safe to run before every command: it installs only when pyproject.toml, the repository's place
# or the interpreter changed since the last complete install. Never reads from stdin. System
# packages are installed only when it runs as root and apt-get exists; otherwise it says what to
# install and stops.
#
#   PYTHON=/path/to/python3 scripts/bootstrap.sh     use this interpreter
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null

venv=.venv
stamp=$venv/.rekindle-stamp

say() { printf 'bootstrap: %s\n' "$*"; }
fail() { printf 'bootstrap: error: %s\n' "$1" >&2; shift; printf '  %s\n' "$@" >&2; exit 1; }

can_apt() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }

apt_updated=no
apt_install() {
    if [ "$apt_updated" = no ]; then
        DEBIAN_FRONTEND=noninteractive apt-get update -qq || return 1
        apt_updated=yes
    fi
    say "installing $* with apt-get"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# --- Python -------------------------------------------------------------------------------------

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    local candidate
    if [ -n "${PYTHON:-}" ]; then
        if is_new_enough "$PYTHON"; then command -v "$PYTHON"; return 0; fi
        return 1
    fi
    for candidate in python3 python3.13 python3.12 python3.11 python3.14 python; do
        if command -v "$candidate" >/dev/null 2>&1 && is_new_enough "$candidate"; then
            command -v "$candidate"
            return 0
        fi
    done
    return 1
}

make_venv() {
    local python=$1 version
    rm -rf "$venv"
    if "$python" -m venv "$venv" >/dev/null 2>&1; then return 0; fi
    # Debian and Ubuntu ship venv's parts as a package of their own.
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if can_apt; then
        apt_install "python$version-venv" || apt_install python3-venv || true
    fi
    rm -rf "$venv"
    if "$python" -m venv "$venv"; then return 0; fi
    rm -rf "$venv"
    fail "$python cannot create a virtual environment" \
        "Debian or Ubuntu:  apt-get install python3-venv  (or python$version-venv)"
}

fingerprint() {
    "$venv/bin/python" - <<'PY'
import hashlib, os, sys
digest = hashlib.sha256()
for part in (open("pyproject.toml", "rb").read(), os.getcwd().encode(), sys.version.encode()):
    digest.update(part + b"\0")
print(digest.hexdigest())
PY
}

ensure_venv() {
    local python
    if [ ! -x "$venv/bin/python" ] || ! is_new_enough "$venv/bin/python"; then
        python=$(find_python) || fail "Python 3.11 or newer is needed${PYTHON:+ (PYTHON=$PYTHON is not)}" \
            "Debian 12+ or Ubuntu 24.04+:  apt-get install python3 python3-venv" \
            "Fedora:  dnf install python3" \
            "macOS:   brew install python@3.12" \
            "or set PYTHON=/path/to/python3"
        say "creating $venv with $("$python" --version) ($python)"
        make_venv "$python"
    fi
    if [ "$(cat "$stamp" 2>/dev/null)" = "$(fingerprint)" ]; then return 0; fi
    say "installing rekindle and its development tools into $venv"
    rm -f "$stamp"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -e '.[dev]' ||
        fail "pip could not install the dependencies that pyproject.toml names" \
            "the messages above say which; the next run tries again"
    fingerprint >"$stamp"
}

# --- Java ---------------------------------------------------------------------------------------

# The major version of the given java command, nothing when it does not run (macOS has a stub).
java_major() {
    "$1" -version 2>&1 | sed -n 's/.* version "\([0-9][0-9]*\).*/\1/p' | head -n 1
}

# Spark takes JAVA_HOME before PATH, so a JAVA_HOME that is wrong is an error even when a good
# java is on PATH.
java_command() {
    if [ -n "${JAVA_HOME:-}" ]; then echo "$JAVA_HOME/bin/java"; else echo java; fi
}

has_java() {
    local major
    major=$(java_major "$(java_command)" || true)
    [ -n "$major" ] && [ "$major" -ge 17 ]
}

ensure_java() {
    if has_java; then return 0; fi
    if [ -z "${JAVA_HOME:-}" ] && can_apt; then
        # Slim images lack this directory and the package's setup script needs it.
        mkdir -p /usr/share/man/man1
        # Newer releases carry only newer Javas.
        apt_install openjdk-17-jre-headless || apt_install default-jre-headless || true
        if has_java; then return 0; fi
    fi
    fail "Java 17 or newer is needed to run Spark${JAVA_HOME:+ (JAVA_HOME=$JAVA_HOME is not)}" \
        "Debian or Ubuntu:  apt-get install openjdk-17-jre-headless" \
        "Fedora:  dnf install java-21-openjdk-headless" \
        "macOS:   brew install openjdk@17   (then set JAVA_HOME to \$(brew --prefix openjdk@17))"
}

# Two runs at once (`make lint & make types`) must not install into one venv.
if command -v flock >/dev/null 2>&1; then
    exec 9>.venv.lock
    flock 9
fi

ensure_venv
ensure_java
