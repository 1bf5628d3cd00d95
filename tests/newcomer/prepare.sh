#!/bin/sh
# Customise hook of mmdebstrap: $1 is the root folder of the image, $2 a folder of CA certificates.
# Leaves what an installer leaves: two users, a name, DHCP. Keys of hosts and users come from each machine, by systemd credentials.
set -eu
root=$1 certificates=$2

within() { chroot "$root" "$@"; }

within useradd --create-home --shell /bin/bash --uid 1000 --groups sudo ada
within useradd --create-home --shell /bin/bash --uid 1001 guest
echo 'ada ALL=(ALL:ALL) NOPASSWD: ALL' > "$root/etc/sudoers.d/ada"
chmod 0440 "$root/etc/sudoers.d/ada"

rm -f "$root"/etc/ssh/ssh_host_*
: > "$root/etc/machine-id"
echo newcomer > "$root/etc/hostname"
printf '127.0.0.1\tlocalhost\n127.0.1.1\tnewcomer\n::1\tlocalhost ip6-localhost ip6-loopback\n' > "$root/etc/hosts"
echo 'LANG=C.UTF-8' > "$root/etc/default/locale"
echo '/dev/vda / ext4 rw,noatime,x-systemd.growfs 0 1' > "$root/etc/fstab"
printf '[Match]\nName=en* eth*\n[Network]\nDHCP=yes\n' > "$root/etc/systemd/network/20-wired.network"
within systemctl --quiet enable systemd-networkd systemd-resolved ssh
# A timer that installs packages would hold apt's lock while the user installs some.
within systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer e2scrub_reap.service man-db.timer

if ls "$certificates"/*.crt >/dev/null 2>&1; then
  cp "$certificates"/*.crt "$root/usr/local/share/ca-certificates/"
  within update-ca-certificates >/dev/null 2>&1
fi

# systemd reads SMBIOS credentials through dmi-sysfs, which Debian builds as a module.
printf 'virtio_pci\nvirtio_blk\nvirtio_net\next4\ndmi-sysfs\n' > "$root/etc/initramfs-tools/modules"
printf 'MODULES=list\nRESUME=none\n' > "$root/etc/initramfs-tools/conf.d/newcomer"
within update-initramfs -u >/dev/null
