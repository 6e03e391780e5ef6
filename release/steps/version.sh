#!/bin/sh
# Prints the version of a tag, where operator and chart have it too: version.sh TAG
set -eu
version=${1#v}
grep -qx "__version__ = \"$version\"" operator/gpujob/__init__.py
grep -qx "version: $version" charts/gpujob-operator/Chart.yaml
grep -qx "appVersion: $version" charts/gpujob-operator/Chart.yaml
echo "$version"
