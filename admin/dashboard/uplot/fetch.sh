#!/usr/bin/env bash
# Fetches the release of uPlot that this folder holds, as npm publishes it, checks it against its published digest and compares the files
# byte by byte: they are as they were built there. With --update the files are put here instead of being compared.
#
#   fetch.sh [--update]
set -euo pipefail

version=1.6.32
integrity=KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==
files="dist/uPlot.iife.min.js dist/uPlot.min.css LICENSE"

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm pack --silent "uplot@$version" >/dev/null
digest=$(openssl dgst -sha512 -binary "uplot-$version.tgz" | base64 -w 0)
[ "$digest" = "$integrity" ] || { echo "fetch.sh: uplot-$version.tgz is not what was published: sha512-$digest" >&2; exit 1; }
tar xzf "uplot-$version.tgz"
for file in $files; do
  if [ "${1-}" = --update ]; then
    cp "package/$file" "$here/"
  else
    cmp "package/$file" "$here/$(basename "$file")"
  fi
done
echo "uPlot $version: $files"
