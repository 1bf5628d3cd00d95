#!/bin/sh
# Downloads the upstream tarball of slurm-wlm, and expect, through this node's own apt: sources, keys and release are those of the image.
# apt compares each file with the signed index. $1: folder, created here, that also holds apt's state, so that the node's own stays as it is.
set -eu
folder=$1
umask 022
mkdir -p "$folder/state/lists/partial" "$folder/cache/archives/partial" "$folder/parts" "$folder/files"
: > "$folder/sources.list"
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
  if [ -f "$list" ]; then sed -E 's/^deb([[:space:]].*)/deb\1\ndeb-src\1/' "$list" >> "$folder/sources.list"; fi
done
for part in /etc/apt/sources.list.d/*.sources; do
  if [ -f "$part" ]; then sed -E 's/^Types:.*/Types: deb deb-src/' "$part" > "$folder/parts/${part##*/}"; fi
done
apt() {
  apt-get -q -o Dir::State="$folder/state" -o Dir::State::status=/var/lib/dpkg/status -o Dir::Cache="$folder/cache" \
    -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts="$folder/parts" \
    -o Acquire::Languages=none -o APT::Sandbox::User=root "$@" >&2
}
apt update
cd "$folder/files"
# The packaging's own files (.dsc, .debian.tar.xz) are not needed, and an archive that is being updated may lack them.
apt source --download-only --tar-only slurm-wlm
apt download expect tcl-expect libtcl8.6
sha256sum -- *
