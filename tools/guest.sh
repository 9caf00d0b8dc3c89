#!/bin/sh
# Make a bare Debian 12 with systemd and its kernel: the emulated guest for tests of cgroup v2, and the
# disk of the machine inside this one for those of the service (hence the last three packages).
# usage: guest.sh DIR     leaves DIR/root.img, DIR/vmlinuz, DIR/initrd
# Tests cache the folder under this file's hash, so whatever decides what the guest is stands here.
set -eu
PATH=$PATH:/usr/sbin:/sbin
dir=$1
if [ "$(id -u)" -ne 0 ]; then
  echo "Making the guest's image needs root." >&2
  exit 1
fi
# Namespaces of its own: whatever debootstrap mounts and starts ends with this script, however it ends.
if [ "${2-}" != inside ]; then
  exec setpriv --pdeathsig KILL unshare --mount --pid --mount-proc --fork --kill-child sh "$0" "$dir" inside
fi

root=$dir/root
mkdir -p "$dir"
debootstrap --variant=minbase \
  --include=systemd,systemd-sysv,dbus,python3,linux-image-cloud-amd64,initramfs-tools,iproute2,procps,python3-venv \
  bookworm "$root" >"$dir/debootstrap.log" 2>&1 || {
  tail -n 20 "$dir/debootstrap.log" >&2
  exit 1
}
cp "$root"/boot/vmlinuz-* "$dir/vmlinuz"
cp "$root"/boot/initrd.img-* "$dir/initrd"
rm -rf "$root"/boot/* "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* \
  "$root"/usr/share/doc/* "$root"/usr/share/man/* "$root"/usr/share/locale/*

echo guest >"$root/etc/hostname" # debootstrap copies this machine's
: >"$root/etc/resolv.conf"       # likewise
mkdir "$root/mnt/repo"
# A guest that can't start ends instead of waiting for a root password.
ln -s /lib/systemd/system/poweroff.target "$root/etc/systemd/system/emergency.target"
ln -s ../guest-run.service "$root/etc/systemd/system/multi-user.target.wants/"
cat >"$root/etc/systemd/system/guest-run.service" <<'UNIT'
[Unit]
Description=What the second drive asks for, its words to the second serial port
SuccessAction=poweroff-force
FailureAction=poweroff-force

[Service]
Type=oneshot
Delegate=yes
ExecStartPre=mount -o ro /dev/vdb /mnt/repo
ExecStart=/mnt/repo/guest-run
StandardOutput=file:/dev/ttyS1
StandardError=inherit
UNIT

mke2fs -q -t ext4 -O ^has_journal -d "$root" "$dir/root.img" 700M >/dev/null
rm -rf "$root"
