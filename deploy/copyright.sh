#!/usr/bin/env bash
# Prints Debian's copyright file of the program: its own licence, then those of the modules that are linked into it, as they lie
# in Go's cache of modules, and of what the dashboard has of others. The Apache License is not repeated, since Debian has it.
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

# terms prints the terms of the Apache License in a file as one line, without what stands before and behind them.
terms() { tr -s '[:space:]' ' ' <"$1" | grep -oE 'Apache License Version 2\.0, January 2004.*any such warranty or additional liability\.' || true; }
apache=$(terms LICENSE)
[ -n "$apache" ]

missing=
while read -r path version directory; do
  found=$(find "$directory" -maxdepth 1 -type f \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'notice*' \) | LC_ALL=C sort)
  [ -n "$found" ] || { printf 'copyright.sh: no licence in %s\n' "$path" >&2; missing=yes; continue; }
  printf '\nFiles: %s@%s\nCopyright: see the text\nLicense: as-in-%s\n' "$path" "$version" "${path//\//-}"
  while read -r file; do
    printf ' %s:\n .\n' "$(basename "$file")"
    text=$(tr -d '\r' <"$file")
    # Of files with the licences of several, too, only these terms.
    if [ "$(terms "$file")" = "$apache" ]; then
      text=$(sed -E '/^[[:space:]]*Apache License$/,/any such warranty or additional liability\.$/c\
The Apache License version 2.0, as in /usr/share/common-licenses/Apache-2.0.' <<<"$text")
    fi
    # A paragraph's lines begin with a space, and an empty one has a dot.
    sed -E 's/[[:space:]]+$//; s/^$/./; s/^/ /' <<<"$text"
  done <<<"$found"
done < <({
  go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/tmpproxy
  # What the dashboard has of npm's.
  printf 'uPlot %s admin/dashboard/uplot\n' "$(sed -nE 's/^version=//p' admin/dashboard/uplot/fetch.sh)"
} | LC_ALL=C sort -u)
[ -z "$missing" ]
