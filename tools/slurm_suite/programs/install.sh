#!/bin/sh
# Unpacks the suite for an ordinary user. $1: folder on the shared file system; $2: folder of this node; standard input: tar of both.
set -eu
shared=$1
own=$2
mkdir "$shared" "$own"
chmod 0755 "$shared" "$own"
# MooseFS keeps deleted files, and their share of its size, for a day.
if command -v mfssettrashretention > /dev/null; then mfssettrashretention -r 0 "$shared" > /dev/null || :; fi
tar -xz -C "$own"
cp -r "$own/expect" "$own/testsuite.conf" "$shared"
mkdir "$own/logs" "$own/tools"
for package in "$own"/packages/*.deb; do dpkg-deb -x "$package" "$own/tools"; done
for loader in /lib64/ld-linux-*.so.* /lib/ld-linux-*.so.*; do
  if [ -e "$loader" ]; then break; fi
done
libraries=$(find "$own/tools/usr/lib" -name '*.so*' -exec dirname {} + | sort -u | paste -sd: -)
# A wrapper and not LD_LIBRARY_PATH, which srun would hand on to jobs.
cat > "$own/expect.sh" << END
#!/bin/sh
export TCL_LIBRARY=$own/tools/usr/share/tcltk/tcl8.6 TCL8_6_TM_PATH=$own/tools/usr/share/tcltk/tcl8.6/tcl8
exec $loader --library-path $libraries $own/tools/usr/bin/expect "\$@"
END
chmod 0755 "$own/expect.sh"
