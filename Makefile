.DEFAULT_GOAL := help
GO ?= go
STATICCHECK = $(GO) tool -modfile=$(CURDIR)/tools/go.mod staticcheck

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

.PHONY: build
build: ## build bin/windlass
	$(GO) build -trimpath -o bin/windlass ./cmd/windlass

.PHONY: check
check: fmt lint expressions ## everything but the tests

.PHONY: fmt
fmt: ## fail if a file is not formatted
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "not formatted: $$unformatted"; exit 1; }

.PHONY: lint
lint: ## vet and staticcheck, for Linux and for macOS
	$(GO) vet ./...
	GOOS=darwin $(GO) vet ./...
	$(STATICCHECK) ./...
	cd bench && $(GO) vet ./... && $(STATICCHECK) ./...

.PHONY: helm-check
helm-check: ## lint the Helm chart and compare what it renders; builds Helm
	deploy/helm/check

.PHONY: expressions
expressions: ## read the alerts and the dashboard as Prometheus does
	cd tools && $(GO) test ./...

.PHONY: test
test: ## all tests
	$(GO) test ./...
	cd bench && $(GO) test ./...

.PHONY: race
race: ## all tests but those of whole processes, with the race detector
	$(GO) test -race -short ./...
	cd bench && $(GO) test -race -short ./...

NPM ?= npm
.PHONY: dashboard
dashboard: ## build dashboard/dist from dashboard/web
	cd dashboard/web && $(NPM) ci --silent && $(NPM) run --silent build

.PHONY: dashboard-check
dashboard-check: ## check the types of dashboard/web, and run its unit tests
	cd dashboard/web && $(NPM) ci --silent && $(NPM) run --silent check && $(NPM) run --silent test

.PHONY: bench
bench: ## benchmarks, as ratios to the broker's raw rates in the same run
	cd bench && $(GO) test -run '^$$' -bench . -benchtime 1x -count 3 .
	$(GO) test -run '^$$' -bench . -benchtime 1x -count 3 ./broker/zookeeper ./api

# Linked as a program of its own, because it starts itself again.
.PHONY: bin/peers
bin/peers:
	cd bench && $(GO) build -trimpath -o ../bin/peers ./cmd/peers

.PHONY: bench-peers
bench-peers: bin/peers ## beside River, asynq and others, in one run of about an hour; PEERS=--quick takes a few minutes
	cd bench && ../bin/peers run $(PEERS)

.PHONY: bench-record
bench-record: bin/peers ## put the report of the last bench-peers into docs/
	cd bench && ../bin/peers record

.PHONY: profile
profile: bin/peers ## profiles of all processes of a workload of ours; WORKLOAD=jobs, zoott, elections, fleet or growth
	cd bench && ../bin/peers profile $(or $(WORKLOAD),jobs)

.PHONY: fuzz
fuzz: ## each fuzz target for half a minute
	@for target in $$(grep -rlE '^func Fuzz' --include='*_test.go' .); do \
		for name in $$(grep -oE '^func Fuzz[A-Za-z0-9_]+' $$target | cut -d' ' -f2); do \
			$(GO) test -run '^$$' -fuzz "^$$name$$" -fuzztime 30s ./$$(dirname $$target) || exit 1; done; done

.PHONY: generate
generate: ## rewrite the files in docs/ that come from the code
	$(GO) test -run TestTidy . -update
	$(GO) test -run TestTransitions ./statemachine -update

SEEDS ?= 4000
.PHONY: simulate
simulate: ## the long simulation: SEEDS seeds of about half a virtual hour each, in virtual time
	$(GO) test ./internal/simulation -run '^TestSimulation' -seeds $(SEEDS) -from 10000 -timeout 0 -v

.PHONY: mutants
mutants: ## bring known defects back, one at a time, and see that the simulation finds each
	$(GO) test ./internal/simulation -run '^TestMutants' -mutants . -timeout 0 -v

SOAK ?= 1h
.PHONY: soak soak-zookeeper
soak: ## real processes and networks under random faults for SOAK; needs root
	$(GO) test ./internal/acceptance -run '^TestSoak' -soak $(SOAK) -timeout 0 -v
soak-zookeeper: ## the same on a ZooKeeper ensemble
	$(GO) test ./internal/acceptance -run '^TestZooKeeperSoak' -soak $(SOAK) -timeout 0 -v

.PHONY: suites-zookeeper
suites-zookeeper: ## the engine's, the trees' and the elections' tests on a real ZooKeeper, in real time
	WINDLASS_TEST_ZOOKEEPER=1 $(GO) test -parallel 24 -timeout 0 . ./tree ./election
