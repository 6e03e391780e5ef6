#!/bin/sh
# Packs, pushes and signs the chart of an image; the password of REGISTRY_USER is read from stdin: chart.sh REPOSITORY@DIGEST VERSION REGISTRY/PATH
set -eu
image=$1 version=$2 charts=$3
make --no-print-directory chart IMAGE="$image"
helm registry login "${charts%%/*}" --username "$REGISTRY_USER" --password-stdin
helm push "dist/gpujob-operator-$version.tgz" "oci://$charts" > dist/pushed 2>&1 || { cat dist/pushed >&2; exit 1; }
digest=$(sed -n 's/^Digest: //p' dist/pushed)
rm dist/pushed
test -n "$digest"
cosign sign --yes "$charts/gpujob-operator@$digest"
