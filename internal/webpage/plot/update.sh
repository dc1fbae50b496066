#!/bin/sh
# Replaces Observable Plot and D3 by the versions of them that are named here: go generate ./internal/webpage
set -eu
cd "$(dirname "$0")"
for package in d3@7.9.0 @observablehq/plot@0.6.17; do
	tar -xzf "$(npm pack --silent "$package")" --strip-components=1 package/LICENSE package/dist
	cat LICENSE
done >licences
mv licences LICENSE
mv dist/d3.min.js dist/plot.umd.min.js .
rm -r dist ./*.tgz
