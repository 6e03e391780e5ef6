#!/bin/sh
# Signs the pushed image, and attests the bill of materials that is in it and the OpenVEX document: image.sh REPOSITORY@DIGEST
set -eu
image=$1
mkdir -p dist
container=$(docker create "$image")
docker cp "$container:/usr/share/sbom/gpujob-operator.cdx.json" dist/gpujob-operator.cdx.json
docker rm "$container" >/dev/null
make --no-print-directory vex IMAGE="$image"
cosign sign --yes "$image"
cosign attest --yes --type cyclonedx --predicate dist/gpujob-operator.cdx.json "$image"
cosign attest --yes --type openvex --predicate dist/gpujob-operator.openvex.json "$image"
