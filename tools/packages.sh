#!/bin/sh
# Debian packages behind the service tests: the emulated guest, the browser, the fault tools,
# and what the machine with a systemd of its own is made of.
# The guest's kernel is no part of the list: it's unpacked in the guest's own tree, so that
# this machine's boot menu stays as it is.
set -eu
exec sh tools/apt.sh qemu-system-x86 debootstrap debian-archive-keyring e2fsprogs \
  chromium fonts-dejavu-core strace libfaketime bindfs fuse3 systemd \
  systemd-sysv dbus iproute2 procps python3-venv
