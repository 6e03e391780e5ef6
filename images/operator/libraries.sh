#!/bin/sh
# Completes the folder of the locked dependencies: libraries.sh LIBRARIES
set -eu
libraries=$1
packages=$libraries/usr/local/lib/python3.13/dist-packages

# No command of a dependency runs in the image, and no source of compiled code is read.
rm -rf "$packages/bin"
find "$packages" \( -name '*.pyx' -o -name '*.pxd' -o -name '*.c' -o -name '*.h' -o -name '*.pyi' \) -delete
python3 -m compileall -q --invalidation-mode unchecked-hash -s "$libraries" "$packages"
