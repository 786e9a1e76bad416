# make build    tmpproxy in this folder
# make test     everything, with real servers that are obtained and started by the tests (testbed/server/obtain.sh)
# make suite-short  files of MySQL's own test suite, directly and through the proxy (part of make test)
# make suite    the same, its C API test, and all its table definitions, as they are and converted
# make test-long  all that takes long, for hours: all files of the suite, its C API test and definitions, all drivers, the scripts and
#               5000 sequences on MariaDB 10.5 and 11.8 as well, a result of 10 GiB that is read slowly
# make drivers  drivers of eight languages and command-line programs, directly and through the proxy (make test runs three of them)
# make servers  only obtains these servers, and what else the tests need; they are kept in ~/.cache/tmpproxy/servers (TMPPROXY_SERVERS_DIR)
# make sequences  made-up sequences of statements, directly and through the proxy, the same each time: SEQUENCES (5000) for each
#               STRATEGY and SERVER of make fuzz
# make fuzz     made-up sequences of statements, directly and through the proxy, until DURATION (60s) is over for each
#               STRATEGY (native,keep,innodb,observe) and SERVER (mysql,mariadb; also mysql-nobinlog, mariadb-binlog, mariadb-11.8, mariadb-10.5)
# make badinput  whole sessions with bad packets on either side, before and after the login: PACKETS (10000000), SEED (1)
# make soak     the drivers' programs again and again through proxies that stay, for DURATION (1h) on SERVER (mysql,mariadb): what they print
#               is compared, and the proxies must not grow
# make load     2,000 sessions that do nothing beside 200 that work for DURATION (10m), and a storm of 5,000 connections (part of make
#               test-long; with few of all a part of make test)
# make deb      the Debian package, in dist/; VERSION=1.2.3 (what git describes otherwise)
# make image    the container image tmpproxy, by docker, podman or buildah (IMAGE_BUILDER="docker build")
# make deploy-check  what lies in deploy/ is looked at by the programs that will read it: the package is installed into a folder,
#               the program runs in an empty root, unit, manifests, alert rules and dashboard are checked (part of make test)
# make machine  the package as the README has it, in a Debian that is made and booted by systemd for it: needs root (part of make test-long)
# make vulncheck  what the program, its tests and what packs it have of Go's vulnerability database, in the newest version that the Go module
#               proxy has; VULNDB=v0.0.0-… another one (part of make test-long)
# make demo     shows what the proxy changes on this machine, side by side and in a trial, then goes on until Ctrl-C;
#               DURATION=20s how long to measure, NONINTERACTIVE=1 end then, SERVER=auto|mysql|mariadb
# make bench    measures what the proxy gains and costs, for some 20 minutes, into bench.txt, bench.json and bench.html;
#               QUICK=1 a few minutes, SERVER=auto|mysql|mariadb, ARGS=... further flags (tmpproxy bench --help)

SHELL := /bin/bash
GO ?= go
SERVERS := mysql mariadb mariadb-11.8 mariadb-10.5 galera
PEERS := haproxy mysqlrouter
# Interpreters with their drivers; a browser for the dashboard.
CLIENTS := drivers chromium
FUZZ_STRATEGIES := native,keep,innodb,observe
FUZZ_SERVERS := mysql,mariadb
SEQUENCES ?= 5000
PACKETS ?= 10000000
SEED ?= 1
VERSION ?= $(or $(shell git describe --tags --match 'v[0-9]*' 2>/dev/null | sed 's/^v//; s/-/+/g'),0+$(or $(shell git log -1 --format=%cd.%h --date=format:%Y%m%d 2>/dev/null),unknown))
MAINTAINER ?= The tmpproxy authors <tmpproxy@localhost>

.PHONY: build test test-long check pure real sequences servers fuzz demo suite suite-short bench drivers badinput soak load \
	dist deb image deploy-check vulncheck machine

build:
	$(GO) build -o tmpproxy ./cmd/tmpproxy

test: check pure deploy-check real suite-short sequences

check:
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "gofmt: $$unformatted"; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags realserver ./tests/... ./testbed/...
	$(GO) vet -tags 'realserver suite soak' ./tests/... ./testbed/...
	$(GO) -C deploy/checks vet ./...

# No tags: nothing here needs a server. The simulated trials are too many for the race detector.
pure:
	$(GO) test -race ./...
	$(GO) test ./trial

real: servers
	$(GO) test -count=1 -race -tags realserver -timeout 30m ./tests/... ./testbed/...

servers:
	@for server in $(SERVERS) $(PEERS) $(CLIENTS); do testbed/server/obtain.sh $$server >/dev/null || exit 1; done

sequences: servers
	$(GO) test -count=1 -timeout 60m -v -tags "realserver fuzz" -run '^TestSequences$$' ./tests/fuzz -sequences=$(SEQUENCES) \
		-strategy=$(FUZZ_STRATEGIES) -server=$(FUZZ_SERVERS) -racedetector=false

fuzz:
	$(GO) test -count=1 -timeout 0 -v -tags "realserver fuzz" -run '^TestFuzz$$' ./tests/fuzz -duration=$(or $(DURATION),60s) \
		-strategy=$(or $(STRATEGY),$(FUZZ_STRATEGIES)) -server=$(or $(SERVER),$(FUZZ_SERVERS)) -racedetector=false

suite-short:
	$(GO) test -count=1 -tags 'realserver suite' -timeout 60m -v -run '^TestFiles$$' ./tests/suite | grep -Ev '^(=== | *--- PASS)'; exit $${PIPESTATUS[0]}

suite: suite-short
	$(GO) test -count=1 -tags 'realserver suite' -timeout 60m -v -run '^TestClientAPI$$' ./tests/suite
	$(GO) test -count=1 -tags 'realserver suite' -timeout 60m -v -run '^TestDefinitions$$' ./tests
	$(MAKE) sequences SEQUENCES=5000 FUZZ_SERVERS=mysql,mariadb,mariadb-11.8,mariadb-10.5

test-long: drivers badinput load vulncheck machine
	$(GO) test -count=1 -timeout 6h -v ./proxy -run '^TestFaults$$' -faults | grep -Ev '^(=== | *--- PASS)'; exit $${PIPESTATUS[0]}
	$(GO) test -count=1 -tags realserver -timeout 6h ./tests -related -slow.rows=10240
	$(MAKE) sequences SEQUENCES=5000 FUZZ_SERVERS=mysql,mariadb,mariadb-11.8,mariadb-10.5
	$(GO) test -count=1 -tags 'realserver suite' -timeout 6h -v ./tests/suite -suite.all | grep -Ev '^(=== | *--- PASS)'; exit $${PIPESTATUS[0]}
	$(GO) test -count=1 -tags 'realserver suite' -timeout 60m -v -run '^TestDefinitions$$' ./tests

badinput:
	$(GO) test -count=1 -timeout 0 -v -run '^TestBadInput' ./proxy -badinput.packets=$(PACKETS) -badinput.seed=$(SEED)

drivers:
	$(GO) test -count=1 -tags realserver -timeout 60m -v ./tests/drivers -drivers.all

soak: servers
	$(GO) test -count=1 -tags 'realserver soak' -timeout 0 -v -run '^TestSoak$$' ./tests/drivers -soak.for=$(or $(DURATION),1h) -soak.servers=$(or $(SERVER),$(FUZZ_SERVERS))

load: servers
	$(GO) test -count=1 -tags realserver -timeout 3h -v -run '^(TestLoad|TestStorm)$$' ./tests -race=false -load.for=$(or $(DURATION),10m) -load.idle=2000 -load.active=200 -load.storm=5000 \
		| grep -Ev '^(=== |  *--- PASS)'; exit $${PIPESTATUS[0]}

# The program for other machines, and what is packed with it, by the Go of go.mod's line toolchain or a newer one: an older one has
# known faults in its library. Where that cannot be had, dist warns and builds by the Go that is there.
vulncheck: export GOTOOLCHAIN = auto
dist: export GOTOOLCHAIN = $(shell GOTOOLCHAIN=auto $(GO) version >/dev/null 2>&1 && echo auto || echo local)
dist:
	@[ "$$GOTOOLCHAIN" = auto ] || echo "warning: $$($(GO) version) builds this, not that of go.mod's line toolchain" >&2
	@mkdir -p dist/completions
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION)' -o dist/tmpproxy ./cmd/tmpproxy
	@dist/tmpproxy man | gzip -9n >dist/tmpproxy.1.gz
	@for shell in bash zsh fish; do dist/tmpproxy completion $$shell >dist/completions/tmpproxy.$$shell || exit 1; done
	@deploy/copyright.sh >dist/copyright

deb: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || date +%s)
deb: dist
	@deploy/changelog.sh '$(VERSION)' '$(MAINTAINER)' | gzip -9n >dist/changelog.gz
	@$(GO) -C deploy/checks build -o ../../dist/nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm
	@rm -f dist/*.deb
	ARCH=$$($(GO) env GOARCH) VERSION='$(VERSION)' MAINTAINER='$(MAINTAINER)' \
		dist/nfpm package --config deploy/deb/nfpm.yaml --packager deb --target dist/

IMAGE_BUILDER ?= $(shell if docker info >/dev/null 2>&1; then echo docker build; elif command -v podman >/dev/null; then echo podman build; \
	else echo buildah build; fi)
image: dist
	$(IMAGE_BUILDER) -f deploy/Dockerfile.prebuilt -t tmpproxy -t tmpproxy:$(subst +,-,$(VERSION)) .

deploy-check: deb
	VERSION='$(VERSION)' $(GO) -C deploy/checks test -count=1 ./...

machine: deb
	deploy/checks/machine.sh dist/*.deb

# The database is a module; the program reads its folder of entries.
VULNDB ?= latest
vulncheck:
	@mkdir -p dist
	@$(GO) -C deploy/checks build -o ../../dist/govulncheck golang.org/x/vuln/cmd/govulncheck
	@$(GO) -C deploy/checks mod download -json golang.org/x/vulndb@$(VULNDB) >dist/vulndb.json || { cat dist/vulndb.json; exit 1; }
	@entries=$$(sed -nE 's/^\t"Dir": "(.*)",$$/\1/p' dist/vulndb.json)/data/osv; \
	[ -e "$$entries/GO-2021-0113.json" ] || { echo "no database in $$entries"; exit 1; }; \
	echo "$$(ls "$$entries" | wc -l) entries of $$entries, $$($(GO) version)"; \
	for folder in . deploy/checks; do dist/govulncheck -C $$folder -test -db "file://$$entries" ./... || exit 1; done

demo:
	@$(GO) run ./tests/demo -duration=$(or $(DURATION),20s) -server=$(or $(SERVER),auto)$(if $(NONINTERACTIVE), -noninteractive)

# The program itself, so that Ctrl-C reaches it.
bench: build
	./tmpproxy bench --server=$(or $(SERVER),auto)$(if $(QUICK), --quick) --text=bench.txt --json=bench.json --html=bench.html $(ARGS)
	@cat bench.txt
