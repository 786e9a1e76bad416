#!/usr/bin/env bash
# Prints Debian's copyright file of the program: its own licence, then those of the modules that are linked into it, as they lie
# in Go's cache of modules, and of what the dashboard has of others.
set -euo pipefail
cd "$(dirname "$0")/.."

cat <<'OWN'
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: tmpproxy

Files: *
Copyright: The tmpproxy authors
License: Apache-2.0
 On Debian systems the full text of the Apache License version 2.0 is in
 /usr/share/common-licenses/Apache-2.0.
OWN

missing=
while read -r path version directory; do
  found=$(find "$directory" -maxdepth 1 -type f \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'notice*' \) | LC_ALL=C sort)
  [ -n "$found" ] || { printf 'copyright.sh: no licence in %s\n' "$path" >&2; missing=yes; continue; }
  printf '\nFiles: %s@%s\nCopyright: see the text\nLicense: as-in-%s\n' "$path" "$version" "${path//\//-}"
  while read -r file; do
    printf ' %s:\n .\n' "$(basename "$file")"
    # A paragraph's lines begin with a space, and an empty one has a dot.
    tr -d '\r' <"$file" | sed -E 's/[[:space:]]+$//; s/^$/./; s/^/ /'
  done <<<"$found"
done < <({
  go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/tmpproxy
  # What the dashboard has of npm's.
  printf 'uPlot %s admin/dashboard/uplot\n' "$(sed -nE 's/^version=//p' admin/dashboard/uplot/fetch.sh)"
} | LC_ALL=C sort -u)
[ -z "$missing" ]
