#!/bin/sh
# Makes a root folder with Debian's Python, which runs there alone: python.sh FOLDER
set -eu
root=$1

# Python with the libraries that its modules load, and what the C library reads. libgcc-s1 and libstdc++6 are for the compiled dependencies.
packages="base-files netbase libc6 libgcc-s1 libstdc++6 zlib1g libzstd1 libssl3t64 libexpat1 libffi8 libbz2-1.0 liblzma5 libuuid1
  libpython3.13-minimal libpython3.13-stdlib python3.13-minimal"

mkdir -p "$root" /build/packages
cd /build/packages
apt-get update --quiet=2
# shellcheck disable=SC2086
apt-get download --quiet=2 -o APT::Sandbox::User=root $packages
mkdir -p "$root/var/lib/dpkg/status.d"
for package in *.deb; do
  dpkg-deb --extract "$package" "$root"
  # Scanners read here what is installed, since no package manager is.
  dpkg-deb --field "$package" > "$root/var/lib/dpkg/status.d/$(dpkg-deb --field "$package" Package)"
done

# Licences stay. Modules go whose libraries are left out: databases, terminals, windows, documentation.
find "$root/usr/share/doc" ! -name copyright ! -type d -delete
find "$root/usr/share/doc" -type d -empty -delete
find "$root/usr/lib" \( -name gconv -o -name libmemusage.so -o -name libpcprofile.so -o -name gdb \) -prune -exec rm -r {} +
stdlib=$root/usr/lib/python3.13
rm -rf "$root/usr/share/man" "$root/usr/share/lintian" "$root/usr/share/binfmts" "$root/usr/share/bug" "$root/usr/share/info" \
  "$root/usr/share/locale" "$root/etc/update-motd.d" "$root/usr/share/base-files" \
  "$root/var/backups" "$root/var/local" "$root/var/log" "$root/home" "$root/srv" "$root/boot" \
  "$stdlib/pydoc_data" "$stdlib/sqlite3" "$stdlib/curses" "$stdlib/dbm" "$stdlib/turtle.py" "$stdlib/_pyrepl" "$stdlib/test"
find "$stdlib/lib-dynload" \( -name '_sqlite3*' -o -name '_curses*' -o -name 'readline*' -o -name '_dbm*' -o -name '_test*' \
  -o -name 'xx*' -o -name '_xx*' -o -name '_ctypes_test*' \) -delete

ln -s python3.13 "$root/usr/bin/python"
ln -s python3.13 "$root/usr/bin/python3"
printf 'root:x:0:0:root:/:/\ngpujob:x:65532:65532:gpujob-operator:/:/\n' > "$root/etc/passwd"
printf 'root:x:0:\ngpujob:x:65532:\n' > "$root/etc/group"
printf 'hosts: files dns\n' > "$root/etc/nsswitch.conf"

chroot "$root" /usr/bin/python -m compileall -q --invalidation-mode unchecked-hash /usr/lib/python3.13
