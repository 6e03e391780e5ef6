#!/bin/sh
# Completes the operator's folder, then checks that the three folders together are whole: operator.sh PYTHON LIBRARIES OPERATOR
set -eu
python=$1 libraries=$2 operator=$3
packages=$operator/usr/local/lib/python3.13/dist-packages

rm -rf "$packages/bin"
python3 -m compileall -q --invalidation-mode unchecked-hash -s "$operator" "$packages"

mkdir -p /build/image
cp -a --link "$python/." "$libraries/." "$operator/." /build/image
cp /build/whole.py /build/image/whole.py
chroot /build/image /usr/bin/python /whole.py
rm /build/image/whole.py

mkdir -p "$operator/usr/share/sbom"
python3 /build/sbom.py /build/image > "$operator/usr/share/sbom/gpujob-operator.cdx.json"
