#!/bin/sh
# Make a virtual environment with what the lock says. usage: venv.sh PYTHON DIR
set -eu
python=$1 dir=$2
command -v "$python" >/dev/null || {
  echo "There is no $python here. slaqd needs Python 3.11 or later; name one with: make PYTHON=..." >&2
  exit 1
}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "slaqd needs Python 3.11 or later; $python is $("$python" -V 2>&1). Name another: make PYTHON=..." >&2
  exit 1
}
# Debian splits off what makes virtual environments.
"$python" -c 'import ensurepip, venv' 2>/dev/null || sh tools/apt.sh python3-venv
echo "making $dir (about a minute when the packages are cached)"
"$python" -m venv --clear "$dir"
"$dir/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
