#!/usr/bin/env bash
# Obtains a MySQL or MariaDB server, another proxy to compare with, interpreters with their MySQL drivers, a browser, or the checkers
# of Prometheus' rules and of systemd's units, without touching the system: Debian's packages and all their libraries are downloaded and unpacked
# into a folder of their own and run through the loader that lies there.
#
#   obtain.sh mysql|mysql-testsuite|mariadb|mariadb-11.8|mariadb-10.5|galera|haproxy|mysqlrouter|drivers|chromium|prometheus|systemd|machine [DIR]
#
# DIR (default $TMPPROXY_SERVERS_DIR, else ${XDG_CACHE_HOME:-$HOME/.cache}/tmpproxy/servers) holds one folder per server.
# That folder's path is the only line on standard output; progress goes to standard error. In it:
#   bin/mysqld, bin/mysql, bin/mysqladmin            (mysql, mysql-testsuite)
#   bin/mysqltest, bin/mysql_client_test, …          (mysql-testsuite: all programs that the tests call)
#   usr/lib/mysql-test/{t,r,include,std_data}        (mysql-testsuite: the main suite)
#   bin/mariadbd, bin/mariadb                        (mariadb; also under their mysql names)
#   usr/lib/galera/libgalera_smm.so                  (galera, which has all of mariadb)
#   bin/haproxy                                      (haproxy)
#   bin/mysqlrouter, plugins                         (mysqlrouter; its plugin_folder is plugins)
#   bin/promtool                                     (prometheus)
#   bin/systemd-analyze, bin/systemd-socket-activate (systemd; the former knows the units of the package, not those of the system)
#   bin/mmdebstrap, bin/systemd-nspawn               (machine: makes a Debian in a folder, with the system's perl and apt, and boots it)
#   bin/initialize DATADIR                           makes a data directory whose root has no password (servers)
#   VERSION                                          the program's own --version line
# drivers and chromium have none of these but VERSION, which lists packages and their versions, one a line: their programs lie where
# the packages have them (usr/lib/chromium/chromium-headless-shell), without a loader and a C library, and run with the system's.
# The server programs read no option files (a leading --no-defaults is accepted). A server that is already there is
# left alone, so the script may be called every time. Two calls at once are safe: the second waits for the first.
set -euo pipefail

fail() { printf 'obtain.sh: %s\n' "$*" >&2; exit 1; }
say() { printf '%s\n' "$*" >&2; }

kind=${1:-}
case $kind in
mysql) suite=sid packages="mysql-server-core mysql-client-core" alone= ;;
# The server comes with it: the tests and their server are of one version.
mysql-testsuite) suite=sid packages="mysql-server-core mysql-client-core libgoogle-perftools4t64" alone=mysql-testsuite ;;
mariadb) suite=bookworm packages="mariadb-server-core mariadb-client-core" alone=mariadb-server ;;
mariadb-11.8) suite=trixie packages="mariadb-server-core mariadb-client-core" alone=mariadb-server ;;
# MariaDB 10.11 and what makes a cluster of several.
galera) suite=bookworm packages="mariadb-server-core mariadb-client-core galera-4" alone=mariadb-server ;;
mariadb-10.5) suite=bullseye packages="mariadb-server-core-10.5 mariadb-client-core-10.5" alone=mariadb-server-10.5 ;;
haproxy) suite=trixie packages=haproxy alone= ;;
mysqlrouter) suite=sid packages=mysql-router alone= ;;
# Its checker needs no other package but the C library.
prometheus) suite=bookworm packages=libc6 alone=prometheus ;;
systemd) suite=bookworm packages=systemd alone= ;;
# The former needs no other package but perl and apt.
machine) suite=bookworm packages=systemd-container alone=mmdebstrap ;;
drivers)
  suite=bookworm alone=
  packages="php-cli php-mysql python3 python3-mysqldb python3-pymysql python3-pyodbc odbc-mariadb perl libdbd-mysql-perl"
  packages="$packages libdbd-mariadb-perl ruby ruby-mysql2 openjdk-17-jre-headless libmariadb-java mariadb-client-core"
  packages="$packages mariadb-client sysbench"
  ;;
chromium) suite=bookworm packages="chromium-headless-shell fonts-dejavu-core" alone= ;;
*) fail "usage: obtain.sh mysql|mysql-testsuite|mariadb|mariadb-11.8|mariadb-10.5|galera|haproxy|mysqlrouter|drivers|chromium|prometheus|systemd|machine [DIR]" ;;
esac
servers=${2:-${TMPPROXY_SERVERS_DIR:-${XDG_CACHE_HOME:-${HOME:?HOME is not set}/.cache}/tmpproxy/servers}}
for program in apt-get apt-config dpkg flock; do
  command -v "$program" >/dev/null || fail "$program not found: this needs Debian or a system derived from it; on others install MySQL or MariaDB and point TMPPROXY_TEST_MYSQL / TMPPROXY_TEST_MARIADB at it"
done
mkdir -p "$servers"
servers=$(cd "$servers" && pwd)
root=$servers/$kind

# there says whether it was obtained. Of systemd there was less once.
there() { [ -f "$root/VERSION" ] && { [ "$kind" != systemd ] || [ -f "$root/bin/systemd-socket-activate" ]; }; }
if there; then
  printf '%s\n' "$root"
  exit 0
fi
exec 9>"$servers/.$kind.lock"
flock -n 9 || { say "waiting for another obtain.sh $kind"; flock 9; }
if there; then
  printf '%s\n' "$root"
  exit 0
fi

# Leftovers of a run that was killed; the lock says that nobody uses them.
rm -rf "$servers/.$kind".*.d
work=$(mktemp -d "$servers/.$kind.XXXXXX.d")
trap 'rm -rf "$work"' EXIT

# mirrors prints the Debian mirrors of the machine's own apt sources, in both formats, then the general one.
mirrors() {
  {
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
      sed -nE 's/^[[:space:]]*deb[[:space:]]+(\[[^]]*\][[:space:]]+)?([^[:space:]]+).*/\2/p'
    cat /etc/apt/sources.list.d/*.sources 2>/dev/null |
      sed -nE 's/^[Uu][Rr][Ii][Ss]:[[:space:]]*(.*)/\1/p' | tr -s '[:space:]' '\n'
  } | grep -E '^https?://.*/debian/?$' || true
  printf '%s\n' http://deb.debian.org/debian
}

keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -r "$keyring" ] || keyring=/usr/share/keyrings/debian-archive-keyring.pgp
[ -r "$keyring" ] || fail "$keyring not found: install the package debian-archive-keyring"

# The machine's way to its mirrors (proxies, certificates, timeouts) is kept; its hooks and its other settings are not,
# for they would act on the system's own apt.
mkdir -p "$work/apt/state/lists/partial" "$work/apt/cache/archives/partial" "$work/root"
: >"$work/apt/status"
cat >"$work/apt/apt.conf" <<CONF
$(apt-config dump | grep '^Acquire::' || true)
Dir::State "$work/apt/state";
Dir::State::Lists "$work/apt/state/lists";
Dir::State::status "$work/apt/status";
Dir::Cache "$work/apt/cache";
Dir::Etc::SourceList "$work/apt/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
Dir::Etc::Main "/dev/null";
Dir::Etc::Parts "/dev/null";
APT::Architectures { "$(dpkg --print-architecture)"; };
APT::Install-Recommends "false";
APT::Sandbox::User "";
APT::Get::Assume-Yes "true";
Acquire::Languages "none";
Acquire::Check-Valid-Until "false";
Acquire::Retries "5";
Dpkg::Use-Pty "false";
CONF
export APT_CONFIG=$work/apt/apt.conf LC_ALL=C DEBIAN_FRONTEND=noninteractive

# fetch downloads the packages with everything they depend on from one mirror, and the package that is wanted alone (it
# holds the server's authentication plugins, and would drag in a whole system).
fetch() {
  printf 'deb [signed-by=%s] %s %s main\n' "$keyring" "$1" "$suite" >"$work/apt/sources.list"
  # An update that could not fetch its index only warns without Error-Mode.
  apt-get -qq -o APT::Update::Error-Mode=any update &&
    # shellcheck disable=SC2086 # the list is meant to be split
    apt-get -qq install --download-only $packages &&
    { [ -z "$alone" ] || (cd "$work/apt/cache/archives" && apt-get -qq download "$alone"); }
}

say "obtaining $kind: $packages${alone:+ $alone} from Debian $suite"
fetched=
for attempt in 1 2 3; do
  while read -r mirror; do
    if fetch "$mirror" >"$work/log" 2>&1; then
      fetched=yes
      break 2
    fi
    say "attempt $attempt from the mirror failed: $(grep -m1 -E '^(E|Err|W):' "$work/log" || tail -n 1 "$work/log")"
  done < <({ mirrors; [ "$suite" != bullseye ] || echo http://archive.debian.org/debian; } | awk '!seen[$0]++')
  sleep $((attempt * 2))
done
[ -n "$fetched" ] || fail "cannot download $packages from Debian $suite:
$(tail -n 15 "$work/log")"

# place puts what was unpacked in its place.
place() {
  rm -rf "$root"
  mv "$work/root" "$root"
}

if [ "$kind" = drivers ] || [ "$kind" = chromium ]; then
  # Such a program finds its files by its own path, which would be the loader's if it were run through that.
  rm -f "$work"/apt/cache/archives/libc6_*.deb "$work"/apt/cache/archives/libc-bin_*.deb
  for package in "$work"/apt/cache/archives/*.deb; do
    dpkg -x "$package" "$work/root" || fail "cannot unpack $package"
    dpkg-deb --show --showformat '${Package} ${Version}\n' "$package" >>"$work/VERSION"
  done
  rm -rf "$work/root/usr/share/doc" "$work/root/usr/share/man"
  # Links to places of the system mean those of the tree.
  (cd "$work/root" && find . -type l -lname '/*' -printf '%P %l\n') | while read -r link target; do
    [ ! -e "$work/root$target" ] || ln -sfn "$(sed -e 's,[^/]*$,,' -e 's,[^/]*/,../,g' <<<"$link")${target#/}" "$work/root/$link"
  done
  mv "$work/VERSION" "$work/root/VERSION"
  place
  say "obtained $(wc -l <"$root/VERSION") packages"
  printf '%s\n' "$root"
  exit 0
fi

for package in "$work"/apt/cache/archives/*.deb; do
  dpkg -x "$package" "$work/root" || fail "cannot unpack $package"
done
rm -rf "$work/root/usr/share/doc" "$work/root/usr/share/man" "$work/root/usr/share/perl"

loader=$(cd "$work/root" && find . -name 'ld-linux*.so.*' ! -path './usr/share/*' | sort | head -n 1)
[ -n "$loader" ] || fail "no loader among the unpacked packages"
multiarch=$(basename "$(dirname "$(find "$work/root" -name libc.so.6 | head -n 1)")")

# wrapper NAME PROGRAM LINE: bin/NAME runs PROGRAM of the unpacked tree; LINE is run before.
wrapper() {
  cat >"$work/root/bin/$1" <<WRAPPER
#!/bin/sh
here=\$(readlink -f "\$0")
root=\${here%/bin/*}
multiarch=$multiarch
libraries=\$root/usr/lib/\$multiarch:\$root/lib/\$multiarch:\$root/usr/lib/mysql/private:\$root/usr/lib/mysql-router:\$root/usr/lib/\$multiarch/systemd
$3
exec "\$root/$loader" --library-path "\$libraries" "\$root/$2" $4"\$@"
WRAPPER
  chmod 755 "$work/root/bin/$1"
}
client="export LIBMYSQL_PLUGIN_DIR=\$root/usr/lib/mysql/plugin MARIADB_PLUGIN_DIR=\$root/usr/lib/\$multiarch/libmariadb3/plugin"
server='case ${1-} in --no-defaults) shift ;; esac'

[ ! -L "$work/root/bin" ] || fail "the unpacked bin is a symbolic link"
mkdir -p "$work/root/bin"
case $kind in
haproxy)
  wrapper haproxy usr/sbin/haproxy "" ""
  program=haproxy
  ;;
prometheus)
  wrapper promtool usr/bin/promtool "" ""
  program=promtool
  ;;
systemd)
  wrapper systemd-analyze usr/bin/systemd-analyze "export SYSTEMD_UNIT_PATH=\$root/lib/systemd/system:\$root/usr/lib/systemd/system" ""
  wrapper systemd-socket-activate usr/bin/systemd-socket-activate "" ""
  program=systemd-analyze
  ;;
machine)
  wrapper systemd-nspawn usr/bin/systemd-nspawn "" ""
  ln -s ../usr/bin/mmdebstrap "$work/root/bin/mmdebstrap"
  program=systemd-nspawn
  ;;
mysqlrouter)
  wrapper mysqlrouter usr/bin/mysqlrouter "" ""
  plugins=$(cd "$work/root" && dirname "$(find . -name routing.so | head -n 1)")
  ln -s "$plugins" "$work/root/plugins"
  program=mysqlrouter
  ;;
mysql*)
  wrapper mysqld usr/sbin/mysqld "$server" "--no-defaults --lc-messages-dir=\"\$root/usr/share/mysql\" --character-sets-dir=\"\$root/usr/share/mysql/charsets\" --plugin-dir=\"\$root/usr/lib/mysql/plugin\" "
  wrapper mysql usr/bin/mysql "$client" ""
  wrapper mysqladmin usr/bin/mysqladmin "$client" ""
  if [ "$kind" = mysql-testsuite ]; then
    for program in mysqlbinlog mysqlcheck mysqldump mysqlimport mysqlshow mysqlslap perror my_print_defaults; do
      wrapper $program usr/bin/$program "$client" ""
    done
    for program in mysqltest mysql_client_test; do
      wrapper $program usr/lib/mysql-test/bin/$program "$client" ""
    done
  fi
  cat >"$work/root/bin/initialize" <<'INIT'
#!/bin/sh
# initialize DATADIR [option ...]: makes a data directory; root has no password.
data=$1
shift
[ "$(id -u)" != 0 ] || set -- --user=root "$@"
exec "$(dirname "$(readlink -f "$0")")/mysqld" --initialize-insecure --datadir="$data" "$@"
INIT
  program=mysqld
  ;;
mariadb* | galera)
  share=$(cd "$work/root" && dirname "$(find usr/share -name '*_system_tables.sql' | head -n 1)")
  [ -n "$share" ] || fail "no system tables among the unpacked packages"
  wrapper mariadbd usr/sbin/mariadbd "$server" "--no-defaults --lc-messages-dir=\"\$root/$share\" --character-sets-dir=\"\$root/usr/share/mysql/charsets\" --plugin-dir=\"\$root/usr/lib/mysql/plugin\" "
  wrapper mariadb usr/bin/mariadb "$client" ""
  ln -s mariadbd "$work/root/bin/mysqld"
  ln -s mariadb "$work/root/bin/mysql"
  cat >"$work/root/bin/initialize" <<INIT
#!/bin/sh
# initialize DATADIR [option ...]: makes a data directory; root has no password.
bin=\$(dirname "\$(readlink -f "\$0")")
share=\$bin/../$share
data=\$1
shift
[ "\$(id -u)" != 0 ] || set -- --user=root "\$@"
mkdir -p "\$data"
tables() {
  for name in system_tables performance_tables system_tables_data; do
    cat "\$share/mariadb_\$name.sql" 2>/dev/null || cat "\$share/mysql_\$name.sql"
  done
  cat "\$share/fill_help_tables.sql"
}
{
  printf '%s\n' 'create database if not exists mysql;' 'use mysql;' 'set @auth_root_socket=NULL;'
  tables
} | "\$bin/mariadbd" --bootstrap --skip-grant-tables --datadir="\$data" "\$@"
INIT
  program=mariadbd
  ;;
esac
[ ! -f "$work/root/bin/initialize" ] || chmod 755 "$work/root/bin/initialize"
option=--version
[ "$program" != haproxy ] || option=-v
version=$("$work/root/bin/$program" $option | head -n 1) || fail "the unpacked $program does not run on this machine"
printf '%s\n' "$version" >"$work/root/VERSION"
place
say "obtained ${version#*Ver }"
printf '%s\n' "$root"
