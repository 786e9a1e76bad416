# What a program that dumps databases makes, DUMP with FLAGS, read back by CLIENT with CLIENT_FLAGS.
# Usage: dump.sh HOST PORT USER PASSWORD DATABASE FILE
set -u
host=$1 port=$2 user=$3 database=$5
export MYSQL_PWD=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

section() { printf '== %s\n' "$*"; }

# dump prints the database, and how it ended.
dump() {
  # shellcheck disable=SC2086 # FLAGS are several words
  "$DUMP" --no-defaults --protocol=TCP --host="$host" --port="$port" --user="$user" --max-allowed-packet=64M --skip-dump-date --no-tablespaces $FLAGS "$@" 2>&1
  echo "status $?"
}

client() {
  # shellcheck disable=SC2086
  "$CLIENT" --no-defaults --protocol=TCP --host="$host" --port="$port" --user="$user" --max-allowed-packet=64M $CLIENT_FLAGS "$@" "$database" 2>&1
}

# brief tells long lines by their beginning and their length.
brief() { awk 'length > 3000 { print substr($0, 1, 40), length; next } { print }'; }

section connect
"$DUMP" --version
echo "INSERT INTO bigs VALUES (1, REPEAT('0123456789abcdef', 17 * 65536))" | client

section types
dump --routines --triggers "$database" | brief
dump --hex-blob --single-transaction --quick --complete-insert --order-by-primary "$database" | brief
dump --skip-opt --compact --xml "$database" types | brief
dump --where='id < 3' --tab="$work" "$database" types | sed "s,$work,," | brief

section write
dump --triggers "$database" >"$work/first"
grep -av '^status' "$work/first" | client
dump --triggers "$database" >"$work/second"
cksum <"$work/first"
cmp "$work/first" "$work/second" && echo "the same once more"

section errors
dump --where='nosuch = 1' "$database" types
dump "$database" nosuch
section end
