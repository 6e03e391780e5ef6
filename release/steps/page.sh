#!/bin/sh
# Makes the release's page with its files: the bundle, the archives of the plugin with krew's manifest, the Python package, what the image is made of,
# and the hashes of them all, signed: page.sh REPOSITORY@DIGEST TAG ADDRESS
set -eu
image=$1 tag=$2 address=$3
version=${tag#v}
make --no-print-directory bundle IMAGE="$image"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -C dist -czf "dist/gpujob-operator-bundle-$version.tar.gz" bundle
make --no-print-directory krew ADDRESS="$address"
make --no-print-directory package notes
cd dist
set -- gpujob-operator-bundle-"$version".tar.gz gpujob-operator-"$version".tgz gpujob.yaml kubectl-gpujob-*.tar.gz \
  gpujob_operator-"$version"-*.whl gpujob_operator-"$version".tar.gz gpujob-operator.cdx.json gpujob-operator.openvex.json
sha256sum "$@" > SHA256SUMS
cosign sign-blob --yes --bundle SHA256SUMS.sigstore.json SHA256SUMS
gh release create "$tag" --verify-tag --title "$tag" --notes-file notes.md "$@" SHA256SUMS SHA256SUMS.sigstore.json
