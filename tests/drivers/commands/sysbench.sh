# What sysbench does and counts. Usage: sysbench.sh HOST PORT USER PASSWORD DATABASE FILE
set -eu
host=$1 port=$2 user=$3 password=$4 database=$5
here=$(dirname "$0")
export LUA_PATH="$SCRIPTS/?.lua"

section() { printf '== %s\n' "$*"; }

# bench runs a script of sysbench's. Times, and rates that follow from them, are left out.
bench() {
  "$SYSBENCH" --mysql-host="$host" --mysql-port="$port" --mysql-user="$user" --mysql-password="$password" --mysql-db="$database" --threads=1 --time=0 --rand-seed=7 "$@" 2>&1 |
    sed -e '/^General statistics/,$d' -e 's/ *([0-9.]* per sec.)//'
}

section connect
"$SYSBENCH" --version

section write
bench "$SCRIPTS/oltp_read_write.lua" --tables=2 --table-size=500 prepare

for mode in auto disable; do
  section transaction $mode
  for script in oltp_read_write oltp_point_select oltp_update_index oltp_insert oltp_delete select_random_ranges; do
    echo "$script"
    bench "$SCRIPTS/$script.lua" --db-ps-mode=$mode --tables=2 --table-size=500 --events=50 run
  done
done

bench "$here/cycles.lua" --events=6 run

section results
bench "$SCRIPTS/oltp_read_write.lua" --tables=2 cleanup
section end
