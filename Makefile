.DEFAULT_GOAL := help
GO ?= go
# The tools are a module of their own, outside of the workspace.
STATICCHECK = "$$(GOWORK=off $(GO) -C $(CURDIR)/tools tool -n staticcheck)" -tags e2e
ifeq (,$(findstring -trimpath,$(GOFLAGS)))
export GOFLAGS := $(GOFLAGS) -trimpath
endif

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

.PHONY: build
build: ## build bin/windlass
	$(GO) build -trimpath -o bin/windlass ./cmd/windlass

.PHONY: check
check: fmt subjects lint ## formatting, subjects of commits, vet and staticcheck

.PHONY: check-all
check-all: fmt subjects lint lint-darwin bench-lint dashboard-check expressions helm-check ## also what guards files that change seldom

.PHONY: fmt
fmt: ## fail if a file is not formatted
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "not formatted: $$unformatted"; exit 1; }

# Those before were not checked. Without a history, as in an archive, there is nothing to check.
.PHONY: subjects
subjects: ## fail if the subject of a commit is not "package: what" in at most 72 characters
	@git rev-parse -q --verify 375626f >/dev/null 2>&1 || exit 0; \
	wrong=$$(git log --no-merges --format='%h %s' 375626f..HEAD | grep -vE '^[0-9a-f]+ [a-z0-9.,/ -]+: .+$$'; git log --no-merges --format='%s' 375626f..HEAD | grep -E '^.{73,}$$'); \
	test -z "$$wrong" || { echo "not a subject: $$wrong"; exit 1; }

.PHONY: lint lint-darwin bench-lint
lint: ## vet and staticcheck
	$(GO) vet -tags e2e work
	$(STATICCHECK) work
lint-darwin: ## vet for macOS
	GOOS=darwin $(GO) vet -tags e2e work
bench-lint: ## vet and staticcheck of the benchmarks' module
	cd bench && $(GO) vet ./... && $(STATICCHECK) ./...

.PHONY: release-check
release-check: ## each module by itself, without the workspace, as a release has it
	tools/modules check

.PHONY: dist image
dist: ## archives of the program for VERSION, such as v0.1.0, and their checksums in dist/
	@tools/dist archives '$(VERSION)'
image: ## the container image windlass:VERSION, with podman or docker
	@tools/dist image '$(VERSION)'

.PHONY: helm-check
helm-check: ## lint the Helm chart and compare what it renders; builds Helm
	deploy/helm/check

.PHONY: expressions
expressions: ## read the alerts and the dashboard as Prometheus does
	cd tools && GOWORK=off $(GO) test ./...

.PHONY: test
test: ## the deterministic tests
	$(GO) test work

.PHONY: e2e smoke
e2e: ## the end-to-end tests; RUN=TestNodes for a part, and PKG=./cmd/windlass/internal/acceptance for one package
	.ci/e2e $(if $(RUN),run '$(RUN)' $(PKG),all)
smoke: ## the few end-to-end tests that .ci/run runs
	.ci/e2e smoke

# What starts goroutines, and what is used by many.
RACE = ./api ./broker ./broker/etcd ./broker/faulty ./broker/memory ./coordinator ./election ./cmd/windlass/internal/exectask \
	./internal/mirror ./internal/runner ./observe/metrics ./session ./observe/tracing ./tree ./windlasstest
# Of the node itself, tests that have it do all that it does.
RACE_NODE = ^Test(Faults|Claim|Fence|Handler|Node|States|Elections|Concurrency|Lease)_
.PHONY: race
race: ## the race detector over what starts goroutines
	$(GO) test -race -short -timeout 8m $(RACE)
	$(GO) test -race -short -timeout 8m -run '$(RACE_NODE)' ./cmd/windlass/internal/integration

NPM ?= npm
.PHONY: dashboard
dashboard: ## build api/dashboard/dist from api/dashboard/web
	cd api/dashboard/web && $(NPM) ci --silent && $(NPM) run --silent build

.PHONY: dashboard-check
dashboard-check: ## check the types of api/dashboard/web, and run its unit tests
	cd api/dashboard/web && $(NPM) ci --silent && $(NPM) run --silent check && $(NPM) run --silent test

# Two commits are compared with go run golang.org/x/perf/cmd/benchstat@latest before.txt after.txt,
# which wants six runs of each; docs/internals/benchmarks.md has the loop.
.PHONY: bench
bench: ## benchmarks, as ratios to the broker's raw rates in the same run
	cd bench && $(GO) test -run '^$$' -bench . -benchtime 1x -count 3 -timeout 0 .
	$(GO) test -tags e2e -run '^$$' -bench . -benchtime 1x -count 3 ./broker/zookeeper ./api

.PHONY: fuzz
fuzz: ## each fuzz target for half a minute
	@for target in $$(grep -rlE '^func Fuzz' --include='*_test.go' .); do \
		for name in $$(grep -oE '^func Fuzz[A-Za-z0-9_]+' $$target | cut -d' ' -f2); do \
			$(GO) test -run '^$$' -fuzz "^$$name$$" -fuzztime 30s ./$$(dirname $$target) || exit 1; done; done

.PHONY: generate
generate: ## rewrite the files in docs/ that come from the code
	$(GO) test ./cmd/windlass/internal/tidy -update
	$(GO) test -run TestTransitions ./statemachine -update

SEEDS ?= 4000
.PHONY: simulate
simulate: ## the long simulation: SEEDS seeds of about half a virtual hour each, in virtual time
	$(GO) test ./cmd/windlass/internal/simulation -run '^TestSimulation' -seeds $(SEEDS) -from 10000 -even -timeout 0 -v

.PHONY: mutants
mutants: ## bring known defects back, one at a time, and see that the simulation finds each
	$(GO) test ./cmd/windlass/internal/simulation -run '^TestMutants' -mutants . -timeout 0 -v

SOAK ?= 1h
.PHONY: soak soak-zookeeper
soak: ## real processes and networks under random faults for SOAK; needs root
	$(GO) test -tags e2e ./cmd/windlass/internal/acceptance -run '^TestSoak' -soak $(SOAK) -timeout 0 -v
soak-zookeeper: ## the same on a ZooKeeper ensemble
	$(GO) test -tags e2e ./cmd/windlass/internal/acceptance -run '^TestZooKeeperSoak' -soak $(SOAK) -timeout 0 -v

.PHONY: suites-zookeeper
suites-zookeeper: ## the engine's, the trees' and the elections' tests on a real ZooKeeper, in real time
	WINDLASS_TEST_ZOOKEEPER=1 $(GO) test -parallel 24 -timeout 0 ./cmd/windlass/internal/integration ./tree ./election
