#!/usr/bin/env bash
# Prints Debian's changelog of one version, with the changes since the tag before it.
#
#   changelog.sh VERSION MAINTAINER
set -euo pipefail
cd "$(dirname "$0")/.."

if before=$(git describe --tags --abbrev=0 --match 'v[0-9]*' HEAD^ 2>/dev/null); then
  changes=$(git log --reverse --no-merges --format=%s "$before..HEAD")
else
  changes='There is no version before this one.'
fi
date=$(date --utc --rfc-email --date="@${SOURCE_DATE_EPOCH:?}")
printf 'tmpproxy (%s) unstable; urgency=medium\n\n' "$1"
while read -r change; do
  fold -s -w 74 <<<"$change" | sed 's/ *$//; 1s/^/  * /; 1!s/^/    /'
done <<<"$changes"
printf '\n -- %s  %s\n' "$2" "$date"
