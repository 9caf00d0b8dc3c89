#!/bin/bash
# A machine inside this one: systemd as PID 1 over a bare Debian. usage: lab.sh DIR NAME REPO WHEELS DISK
# It lives until its standard input ends, which is also how the death of whoever started it is seen;
# then nothing is left of it: mounts and processes end with their namespaces, and its cgroups are removed.
set -euo pipefail
dir=$1 name=$2
controllers="cpu cpuacct cpuset memory devices freezer blkio pids"

groups() {
  for each in $controllers systemd unified; do echo "/sys/fs/cgroup/$each/$name"; done
}

clean() {
  kill -KILL "$child" 2>/dev/null || true
  wait "$child" 2>/dev/null || true
  for _ in $(seq 100); do # the last processes are gone a moment after they were killed
    left=
    for each in $(groups); do
      [ ! -d "$each" ] || find "$each" -depth -type d -exec rmdir {} + 2>/dev/null || left=1
    done
    [ -n "$left" ] || break
    sleep 0.1
  done
  rm -rf "$dir"
}

inside='
set -eu
dir=$1 repo=$2 wheels=$3 disk=$4
mount -t tmpfs tmpfs "$dir"
mkdir "$dir/lower" "$dir/upper" "$dir/work" "$dir/root"
r=$dir/root
mount -o loop,ro "$disk" "$dir/lower"
mount -t overlay overlay -o "lowerdir=$dir/lower,upperdir=$dir/upper,workdir=$dir/work" "$r"
chroot "$r" sh -eu <<SETUP
rm -rf /etc/systemd/system/*.wants /etc/machine-id /etc/hostname
: >/etc/machine-id
echo lab >/etc/hostname
for unit in getty.target console-getty.service systemd-logind.service systemd-timesyncd.service systemd-udevd.service \
  systemd-sysctl.service systemd-binfmt.service proc-sys-fs-binfmt_misc.automount systemd-modules-load.service \
  systemd-tmpfiles-setup-dev.service systemd-random-seed.service systemd-udev-trigger.service; do
  ln -sf /dev/null /etc/systemd/system/\$unit
done
mkdir /srv/slaqd /srv/wheels /srv/upper /srv/lower
SETUP
for part in pyproject.toml README.md LICENSE slaqd adapters systemd conf; do cp -r "$repo/$part" "$r/srv/slaqd/"; done
find "$r/srv/slaqd" -name __pycache__ -prune -exec rm -rf {} +
cp "$wheels"/* "$r/srv/wheels/"
mount --bind "$dir/upper" "$r/srv/upper"
mount --bind "$dir/lower" "$r/srv/lower"
mount -t proc proc "$r/proc"
mount -t sysfs -o ro sysfs "$r/sys"
mount -t tmpfs -o mode=755 tmpfs "$r/sys/fs/cgroup"
cd "$r/sys/fs/cgroup"
for each in '"$controllers"'; do mkdir "$each"; mount -t cgroup -o "$each" cgroup "$each"; done
mkdir systemd unified
mount -t cgroup -o none,name=systemd cgroup systemd
mount -t cgroup2 cgroup2 unified
# The kernel is shared with the machine outside: its devices and its settings stay out of reach.
mount --bind "$r/proc/sys" "$r/proc/sys"
mount -o remount,bind,ro "$r/proc/sys"
mount -t tmpfs -o mode=755 tmpfs "$r/dev"
for each in null zero full random urandom tty; do touch "$r/dev/$each"; mount --bind "/dev/$each" "$r/dev/$each"; done
mkdir "$r/dev/pts"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$r/dev/pts"
ln -s pts/ptmx "$r/dev/ptmx"
ln -s /proc/self/fd "$r/dev/fd"
mount -t tmpfs -o mode=755 tmpfs "$r/run"
mount -t tmpfs -o mode=1777 tmpfs "$r/tmp"
ip link set lo up
cd "$r"
mkdir -p .old
pivot_root . .old
umount -l /.old
exec env -i container=lab PATH=/usr/sbin:/usr/bin:/sbin:/bin /sbin/init </dev/null
'

child=
trap clean EXIT
(
  for each in $(groups); do
    mkdir -p "$each"
    case $each in
    */cpuset/*) for file in cpus mems; do cat "/sys/fs/cgroup/cpuset/cpuset.$file" >"$each/cpuset.$file"; done ;;
    esac
    echo "$BASHPID" >"$each/cgroup.procs"
  done
  exec setpriv --pdeathsig KILL unshare --mount --pid --uts --ipc --cgroup --net --fork --propagation private \
    --kill-child bash -c "$inside" _ "$dir" "$3" "$4" "$5"
) </dev/null &
child=$!
echo "$child"
read -r _ || true
