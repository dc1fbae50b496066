#!/bin/sh
# Replaces uPlot by the version of it that is named here: go generate ./internal/webpage
set -eu
cd "$(dirname "$0")"
npm pack --silent uplot@1.6.32 >/dev/null
tar -xzf uplot-*.tgz --strip-components=1 package/LICENSE package/dist/uPlot.iife.min.js package/dist/uPlot.min.css
mv dist/uPlot.iife.min.js uplot.min.js
mv dist/uPlot.min.css uplot.min.css
rm -r dist uplot-*.tgz
