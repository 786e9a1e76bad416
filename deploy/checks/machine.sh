#!/usr/bin/env bash
# Follows the README's section "From the package, under systemd": a Debian 12 is made in a folder, booted by systemd-nspawn with systemd as
# its first process and a network of its own, and in it every command of that section is run as root, in front of a real MySQL and with the
# programs mysql and mariadb. Then: watchdog, faults, socket unit, upgrade, removal, purge.
#
#   machine.sh PACKAGE       as root; make machine
#
# Whatever is not as it should be is said on standard error, and the script fails at once.
set -euo pipefail
cd "$(dirname "$0")/../.."
package=$(realpath "$1")
[ "$(id -u)" = 0 ] || { echo 'machine.sh: only root can boot a machine' >&2; exit 1; }

tools=$(testbed/server/obtain.sh machine)
servers=$(dirname "$tools")
testbed/server/obtain.sh mysql >/dev/null
testbed/server/obtain.sh mariadb >/dev/null
work=$(mktemp -d)
root=$work/root
leader=

finish() {
  code=$?
  if [ -n "$leader" ]; then
    if [ $code != 0 ]; then
      inside 'systemctl status --no-pager --lines=20 tmpproxy.socket tmpproxy.service' >&2 || true
    fi
    kill -RTMIN+4 "$leader" || true # poweroff
    wait || true
  fi
  rm -rf --one-file-system "$work"
  exit $code
}
trap finish EXIT
trap 'echo "machine.sh: line $LINENO: $BASH_COMMAND" >&2' ERR

say() { printf '%s\n' "== $*" >&2; }
# inside runs a line of shell in the machine, from /root.
inside() {
  nsenter --target "$leader" --mount --uts --ipc --net --pid --cgroup -- env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/root LANG=C.UTF-8 TERM=dumb bash -o pipefail -c "cd /root; $1"
}
# want LINE PATTERN: what the line prints has to match.
want() {
  local out
  out=$(inside "$1" 2>&1) || { printf 'machine.sh: %s\n%s\n' "$1" "$out" >&2; return 1; }
  grep -Eq -- "$2" <<<"$out" || { printf 'machine.sh: %s\nprints no %s:\n%s\n' "$1" "$2" "$out" >&2; return 1; }
}
# refuse LINE PATTERN: the line has to fail and say so.
refuse() {
  local out
  if out=$(inside "$1" 2>&1); then printf 'machine.sh: succeeds: %s\n%s\n' "$1" "$out" >&2; return 1; fi
  grep -Eq -- "$2" <<<"$out" || { printf 'machine.sh: %s\nprints no %s:\n%s\n' "$1" "$2" "$out" >&2; return 1; }
}
# within LINE PATTERN: likewise within 90 s.
within() {
  for _ in {1..900}; do
    if out=$(inside "$1" 2>&1) && grep -Eq -- "$2" <<<"$out"; then return; fi
    sleep 0.1
  done
  printf 'machine.sh: %s\nprints no %s:\n%s\n' "$1" "$2" "$out" >&2
  return 1
}
# files lists what there is but for what apt, dpkg, the journal and the server write at any time.
files() { (cd "$root" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./run -o -path ./tmp -o -path ./opt -o -path ./var/lib/mysql -o -path ./var/log \
  -o -path ./var/cache -o -path ./var/lib/dpkg -o -path ./var/lib/apt -o -path ./var/lib/systemd -o -path ./var/tmp -o -path ./root \) -prune -o -print | sort); }
property() { inside "systemctl show --property=$1 --value tmpproxy.service"; }

say 'making a Debian 12'
"$tools/bin/mmdebstrap" --quiet --variant=minbase --include=systemd-sysv,dbus,sudo,curl,man-db,bash-completion,lintian bookworm "$root" >&2
mkdir -p "$root/root/dist" "$root/opt/servers"
cp "$package" "$root/root/dist/"
echo machine >"$root/etc/hostname"
echo '127.0.0.1 localhost machine' >"$root/etc/hosts"

say 'it is installed, enabled and purged where no systemd runs'
files >"$work/before"
chroot "$root" sh -euc 'dpkg -i /root/dist/tmpproxy_*.deb; systemctl enable tmpproxy.service tmpproxy.socket; dpkg --purge tmpproxy' >&2
files >"$work/purged"
left=$(comm -13 "$work/before" "$work/purged" | paste -s)
[ -z "$left" ] || { echo "machine.sh: left by the purge: $left" >&2; exit 1; }

say 'booting it'
"$tools/bin/systemd-nspawn" --boot --quiet --directory="$root" --machine=tmpproxy --register=no --keep-unit --private-network --console=pipe \
  --bind-ro="$servers:/opt/servers" </dev/null >"$work/console" 2>&1 &
nspawn=$!
for _ in {1..600}; do
  leader=$(pgrep --parent "$nspawn" || true)
  [ -z "$leader" ] || break
  sleep 0.1
done
[ -n "$leader" ] || { cat "$work/console" >&2; exit 1; }
within 'systemctl is-system-running' '^running$'

inside 'ln -s /opt/servers/mysql/bin/mysql /opt/servers/mariadb/bin/mariadb /usr/local/bin/'
inside '/opt/servers/mysql/bin/initialize /var/lib/mysql >/var/lib/mysql.log 2>&1'
inside 'systemd-run --quiet --unit=mysql /opt/servers/mysql/bin/mysqld --user=root --datadir=/var/lib/mysql --mysqlx=OFF --secure-file-priv= \
  --bind-address=127.0.0.1 --socket=/var/lib/mysql/s'
within 'mysql -uroot -h127.0.0.1 -e "SELECT VERSION()"' '^9\.'
inside 'mysql -uroot -h127.0.0.1 -e "CREATE DATABASE app; CREATE USER shop IDENTIFIED BY '"'secret'"'; GRANT ALL ON app.* TO shop"'
cat >"$root/root/cycles.sql" <<'SQL'
CREATE TEMPORARY TABLE t (i INT PRIMARY KEY) ENGINE=MEMORY; INSERT INTO t VALUES (1), (2); SELECT SUM(i) FROM t; DROP TEMPORARY TABLE t;
CREATE TEMPORARY TABLE t (i INT PRIMARY KEY) ENGINE=MEMORY; INSERT INTO t VALUES (1), (2); SELECT SUM(i) FROM t; DROP TEMPORARY TABLE t;
CREATE TEMPORARY TABLE t (i INT PRIMARY KEY) ENGINE=MEMORY; INSERT INTO t VALUES (1), (2); SELECT SUM(i) FROM t; DROP TEMPORARY TABLE t;
CREATE TEMPORARY TABLE t (i INT PRIMARY KEY) ENGINE=MEMORY; INSERT INTO t VALUES (1), (2); SELECT SUM(i) FROM t; DROP TEMPORARY TABLE t;
SQL
mysql='mysql -h127.0.0.1 -P3307 --get-server-public-key -ushop -psecret app <cycles.sql'
mariadb='mariadb -h127.0.0.1 -P3307 -ushop -psecret app <cycles.sql'
# created prints how many tables the server has made of its own statements; reused how many cycles the proxy says to have saved.
created() { inside 'mysql -uroot -h127.0.0.1 -BNe "SHOW GLOBAL STATUS LIKE '"'Com_create_table'"'" | cut -f2'; }
reused() { inside 'curl -fsS http://127.0.0.1:9104/metrics' | sed -n 's/^tmpproxy_reuses_total //p'; }

say 'lintian'
want 'lintian --allow-root --fail-on=error,warning --info dist/tmpproxy_*.deb && echo clean' '^clean$'

say 'the package is installed'
files >"$work/before"
inside 'sudo apt-get install -y -q ./dist/tmpproxy_*.deb' >&2
want 'systemctl is-enabled tmpproxy || true' '^disabled$'
want 'systemctl is-active tmpproxy || true' '^inactive$'
want 'man tmpproxy | cat' 'tmpproxy serve'
want '. /usr/share/bash-completion/bash_completion; _completion_loader tmpproxy; complete -p tmpproxy' '__start_tmpproxy'

say 'it is set up and started'
inside "sudo sed -i 's/address: 127.0.0.1:3306/address: localhost:3306/' /etc/tmpproxy/config.yaml"
inside 'sudo systemctl enable --now tmpproxy'
want 'curl -fsS http://127.0.0.1:9104/readyz' '^ok'
for line in Type=notify ActiveState=active SubState=running Result=success NotifyAccess=main; do
  want "systemctl show tmpproxy" "^$line\$"
done
want 'systemctl show --property=StatusText tmpproxy' 'StatusText=.+'
want "$mysql" '^3$'
want "$mariadb" '^3$'
want 'tmpproxy advise' 'ENGINE=MEMORY'
[ "$(reused)" = 0 ]

say 'it keeps tables'
pid=$(property MainPID)
inside "sudo sed -i 's/strategy: observe/strategy: innodb/' /etc/tmpproxy/config.yaml"
inside 'sudo systemctl reload tmpproxy'
want 'curl -fsS http://127.0.0.1:9104/api/status' '"in_force": "innodb"'
before=$(created)
want "$mysql" '^3$'
want "$mariadb" '^3$'
[ "$(reused)" -ge 4 ] || { echo "machine.sh: $(reused) reuses" >&2; exit 1; }
[ $(($(created) - before)) -le 4 ] || { echo "machine.sh: the server made $(($(created) - before)) tables" >&2; exit 1; }
want 'curl -fsS http://127.0.0.1:9104/api/shapes' '"reuses": [1-9]'

say 'it is switched off and on'
want 'sudo tmpproxy switch native --config=/etc/tmpproxy/config.yaml' '^strategy native is in force'
before=$(reused)
want "$mysql" '^3$'
[ "$(reused)" = "$before" ]
want 'sudo tmpproxy switch configured --config=/etc/tmpproxy/config.yaml' '^strategy innodb is in force'
refuse 'sudo -u nobody tmpproxy switch native --config=/etc/tmpproxy/config.yaml' 'token'
inside "sudo sed -i 's/strategy: innodb/strategy: native/' /etc/tmpproxy/config.yaml && sudo systemctl reload tmpproxy"
want 'curl -fsS http://127.0.0.1:9104/api/status' '"in_force": "native"'
inside "sed -i 's/strategy: native/strategy: innodb/' /etc/tmpproxy/config.yaml && systemctl reload tmpproxy"
[ "$(property MainPID)" = "$pid" ]

say 'what the unit forbids is forbidden'
status=$(inside "cat /proc/$pid/status")
for line in 'CapEff:.0000000000000000' 'CapBnd:.0000000000000000' 'NoNewPrivs:.1' 'Seccomp:.2'; do
  grep -Eq "^$line\$" <<<"$status" || { printf 'machine.sh: no %s in\n%s\n' "$line" "$status" >&2; exit 1; }
done
if grep -Eq '^Uid:.0\b' <<<"$status"; then echo 'machine.sh: it runs as root' >&2; exit 1; fi
want 'systemd-analyze security --no-pager tmpproxy.service' 'Overall exposure level for tmpproxy.service: 1\.[01] OK'
inside "sed -i 's,addresses: .*,addresses: [127.0.0.1:3307\, /run/tmpproxy/mysql.sock],' /etc/tmpproxy/config.yaml"
printf 'trial: {dir: /var/lib/tmpproxy}\nslow_log: {file: /var/lib/tmpproxy/slow.log, threshold: 0s}\nrecord: {file: /var/lib/tmpproxy/record.jsonl}\n' >>"$root/etc/tmpproxy/config.yaml"
inside 'systemctl restart tmpproxy'
want 'curl -fsS http://127.0.0.1:9104/readyz' '^ok'
want 'mysql -S /run/tmpproxy/mysql.sock --get-server-public-key -ushop -psecret app <cycles.sql' '^3$'
for action in 'trial start --trial.arms=native,innodb' 'record start'; do
  inside "tmpproxy $action --config=/etc/tmpproxy/config.yaml"
done
want "$mysql" '^3$'
within 'ls /var/lib/tmpproxy/' 'trial.*'
for file in slow.log record.jsonl; do
  within "cat /var/lib/tmpproxy/$file" 'CREATE TEMPORARY TABLE t'
done
inside 'tmpproxy trial stop --config=/etc/tmpproxy/config.yaml; tmpproxy record stop --config=/etc/tmpproxy/config.yaml'

say 'it ends, fails and hangs'
pid=$(property MainPID)
inside "kill -9 $pid"
within 'systemctl show --property=NRestarts,ActiveState tmpproxy | paste -s' 'NRestarts=1.ActiveState=active|ActiveState=active.NRestarts=1'
want "$mysql" '^3$'
pid=$(property MainPID)
inside "kill -STOP $pid" # the watchdog has it killed after 30 s
within 'journalctl --no-pager -u tmpproxy' 'Watchdog timeout'
within 'systemctl show --property=NRestarts,ActiveState tmpproxy | paste -s' 'NRestarts=2.ActiveState=active|ActiveState=active.NRestarts=2'
want "$mysql" '^3$'
inside "sed -i 's/strategy: innodb/strategy: inodb/' /etc/tmpproxy/config.yaml"
pid=$(property MainPID)
inside 'systemctl reload tmpproxy'
within 'systemctl status --no-pager tmpproxy' 'Status: .*inodb'
[ "$(property MainPID)" = "$pid" ]
refuse 'systemctl restart tmpproxy' 'failed'
want 'systemctl show tmpproxy' '^ExecMainStatus=2$'
want 'systemctl show tmpproxy' '^ActiveState=failed$'
inside "sed -i 's/strategy: inodb/strategy: innodb/' /etc/tmpproxy/config.yaml; systemctl restart tmpproxy"

say 'the socket unit'
printf 'shutdown: {finish: 20s}\n' >>"$root/etc/tmpproxy/config.yaml" # a restart leaves clients alone, who are short here
refuse 'systemctl start tmpproxy.socket' 'failed' # the service has the address
inside 'sudo systemctl stop tmpproxy'
want 'systemctl show tmpproxy' '^ActiveState=inactive$'
want 'systemctl show tmpproxy' '^ExecMainStatus=143$'
inside 'sudo systemctl enable --now tmpproxy.socket && sudo systemctl start tmpproxy'
want "$mysql" '^3$'
want 'curl -fsS http://127.0.0.1:9104/readyz' '^ok'
inside 'until [ -e stop ]; do mysql -h127.0.0.1 -P3307 --get-server-public-key -ushop -psecret -e "DO 1" app || exit 1; echo; done 2>clients.log >served.log' &
clients=$!
for _ in 1 2 3 4 5; do
  inside 'sudo systemctl restart tmpproxy'
  before=$(wc -l <"$root/root/served.log")
  within "[ \$(wc -l <served.log) -gt $((before + 5)) ] && echo more" more || { cat "$root/root/clients.log" >&2; exit 1; }
done
touch "$root/root/stop"
wait $clients || { cat "$root/root/clients.log" >&2; exit 1; }

say 'it is upgraded'
inside 'systemctl start tmpproxy'
pid=$(property MainPID)
want 'sudo apt-get install -y -q --reinstall ./dist/tmpproxy_*.deb' 'still the old one'
[ "$(property MainPID)" = "$pid" ]
want 'cat /etc/tmpproxy/config.yaml' 'localhost:3306'

say 'it is removed'
inside 'apt-get remove -y -q tmpproxy' >&2
want 'systemctl is-active tmpproxy.service tmpproxy.socket || true' '^inactive$'
files >"$work/removed"
left=$(comm -13 "$work/before" "$work/removed" | grep -Ev '^\./var/lib/(private|tmpproxy)' | paste -s)
[ "$left" = "./etc/tmpproxy	./etc/tmpproxy/admin.token	./etc/tmpproxy/config.yaml" ] || { echo "machine.sh: left by the removal: $left" >&2; exit 1; }
inside 'apt-get purge -y -q tmpproxy' >&2
files >"$work/purged"
left=$(comm -13 "$work/before" "$work/purged" | sed '\,^\./var/lib/private$,d' | paste -s)
[ -z "$left" ] || { echo "machine.sh: left by the purge: $left" >&2; exit 1; }
say "all is well, under $(inside 'systemctl --version | head -n 1')"
