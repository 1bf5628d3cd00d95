#!/bin/sh
# Turns the archive $1 into $2/{disk.raw,vmlinuz,initrd}; $3 is the size of the disk. The owner of every file must be settable.
set -eu
archive=$1 folder=$2 size=$3
mkdir "$folder/tree"
tar --extract --file "$archive" --directory "$folder/tree" --numeric-owner --exclude './dev/*'
cp "$folder"/tree/boot/vmlinuz-* "$folder/vmlinuz"
cp "$folder"/tree/boot/initrd.img-* "$folder/initrd"
truncate --size "$size" "$folder/disk.raw"
mke2fs -q -t ext4 -d "$folder/tree" "$folder/disk.raw"
rm -rf "$folder/tree"
