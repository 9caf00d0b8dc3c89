#!/bin/sh
# Install the Debian packages that are missing, or say who has to. usage: apt.sh PACKAGE...
set -eu
command -v dpkg-query >/dev/null || {
  echo "This is not Debian. Install what these Debian packages hold, in your system's way: $*" >&2
  exit 1
}
missing=
for name in "$@"; do
  dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing="$missing $name"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" -ne 0 ]; then
  echo "These Debian packages are missing:$missing" >&2
  echo "Not being root, this can't install them. Ask for:  sudo apt-get install$missing" >&2
  exit 1
fi
echo "installing Debian packages:$missing"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086  # a list of names
apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1 || {
  # Most often the package lists are old or not there at all.
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends $missing >/dev/null
}
