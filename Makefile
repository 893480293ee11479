# Poolwright. `make help` lists the targets.
#
# A fresh machine needs Go 1.21 or newer, git, make and a C compiler. The Go version that
# go.mod names comes through the module proxy; everything else is built from Go modules
# and kept in .cache/.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
# Without cgo, as the Dockerfile ships the product. With it, a library that can
# load plugins keeps every symbol alive, and the binary is 2.5 times as big, on
# disk and in memory. The one program of the sandbox that needs cgo, for SQLite,
# sets it itself. The race detector needs it, too: make test CGO_ENABLED=1 ARGS=-race
export CGO_ENABLED := 0

# The flags of what is released and of the sandbox's programs, for all that is run here: a package is
# compiled once for builds, tests and linters, and by no other flags of whoever runs this.
export GOFLAGS := -trimpath

# The version that go.mod selects, for all that is run here, `go run` of a tool included: many
# machines and images set GOTOOLCHAIN=local, by which an older Go refuses to build this module.
export GOTOOLCHAIN := $(firstword $(shell GOTOOLCHAIN=$(or $(filter-out local,$(GOTOOLCHAIN)),auto) go env GOVERSION))

# The sandbox keeps its programs in the same folder; see its package build.
CACHE := $(abspath $(or $(POOLWRIGHT_CACHE),.cache))
FOLDERS := cmd reconciler provision gitsource internal config examples docs

# The set-up that the demo runs: a folder below examples. Empty is altanova.
SETUP ?=
# Extra arguments: for the demo (ARGS="-o json", ARGS=--keep), or for go test.
ARGS ?=
# How long each fuzz target runs, or how often (1000x), and what its binary is built with: -fuzz adds the
# instrumentation that guides a long run, and builds everything it depends on anew.
FUZZTIME ?= 20s
FUZZBUILD ?= -fuzz=.
# With which seed hostile repositories are searched for, and how many.
SEED ?= 1
SEARCHED ?= 500
# Packages whose tests run with the race detector; it builds everything they depend on
# anew, with cgo.
RACE ?= ./reconciler/apply ./reconciler/plan ./reconciler/state ./reconciler/proposal ./reconciler \
	./reconciler/controller/... ./reconciler/pullrequest ./reconciler/targets/internal/... \
	./cmd/internal/leaderelection ./reconciler/timeout
# Where known vulnerabilities are read: https://vuln.go.dev, a mirror of it, or
# file:///a/folder/of/OSV/files.
GOVULNDB ?= https://vuln.go.dev
GOVULNCHECK := go run golang.org/x/vuln/cmd/govulncheck@v1.9.0
# The cases of prove-smoke: a kill, a person's edit, nodes that arrive, refused commits, and an outage of Git.
SMOKE ?= update-and-prune|prune-with-losses|refused-commits/kill-after|replace|nodes-arrive|gone/^git$$|delete
# The version that an image has, and is tagged with.
VERSION ?= $(shell git describe --tags --always --dirty)
# The repository that the image is pushed to.
PUSH ?=
# Where the image of a release is, and a URI of who makes it.
IMAGE ?= ghcr.io/poolwright/poolwright
BUILDER ?= https://poolwright.dev/builders/local
# The controllers of Flux that make interop runs.
INTEROP := source-controller kustomize-controller helm-controller
# Packages that run at the same time. Sandboxes are heavy.
PARALLEL ?= 2

CONTROLLER_GEN := go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.19.0
LINT_VERSION := $(shell sed -n 's|.*golangci/golangci-lint/v2 \(v[^ ]*\).*|\1|p' .ci/lint/go.mod)

# What is recorded on a machine with a GPU: the versions of NVIDIA's programs, and where the recording is.
NVIDIA_PLUGIN := $(shell sed -n 's|.*NVIDIA/k8s-device-plugin \(v[^ ]*\).*|\1|p' .ci/gpu/plugin/go.mod)
NVIDIA_DRA_DRIVER := $(shell sed -n 's|.*dra-driver-nvidia-gpu \(v[^ ]*\).*|\1|p' .ci/gpu/dradriver/go.mod)
GPU_RECORDING := reconciler/deviceplugin/recording/testdata
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)

# Test files that declare or import something, as package paths.
packages_with = $(shell grep -rlE --include='*_test.go' '$(1)' $(FOLDERS) | xargs -rn1 dirname | sort -u | sed 's|^|./|')

.PHONY: help
help: ## Show this list
	@sed -nE 's/^([a-z][a-z-]*):.*## (.*)/\1\t\2/p' Makefile | awk -F'\t' '{printf "  %-10s %s\n", $$1, $$2}'

.PHONY: build
build: ## Build bin/poolwright and bin/poolwright-sandbox
	@mkdir -p bin
	@go build -o bin/ ./cmd/poolwright ./cmd/poolwright-sandbox

.PHONY: demo
demo: build ## Run the demo on this machine (SETUP=piksel, ARGS="-o json", ARGS=--keep, ARGS=--ui)
	@bin/poolwright-sandbox demo $(if $(SETUP),--setup '$(SETUP)') $(ARGS)

.PHONY: monitoring
monitoring: build ## Record the metrics of the demo anew, on which the queries of config/monitoring are tested
	@GOWORK=off go run -C .ci/monitoring ./record -root '$(CURDIR)'
	@$(MAKE) dashboards
	GOWORK=off go -C .ci/monitoring test -count=1 .

.PHONY: dashboards
dashboards: ## Draw the pictures of the dashboards in docs/images from their JSON and the recorded demo
	GOWORK=off go -C .ci/monitoring test -count=1 -run '^TestTheImages' . -update

.PHONY: gpu-recorder
gpu-recorder: ## Build into bin/gpu what records NVIDIA's device plugin and its DRA driver on a machine with a GPU
	@mkdir -p bin/gpu
	GOWORK=off CGO_ENABLED=0 go build -C .ci/gpu -trimpath -ldflags '-s -w' -o '$(CURDIR)/bin/gpu/' ./record
	@# The driver's library is loaded when they run, so that names of it are resolved late.
	GOWORK=off CGO_ENABLED=1 go build -C .ci/gpu/plugin -trimpath -o '$(CURDIR)/bin/gpu/' \
		-ldflags '-s -w -extldflags=-Wl,-z,lazy -X github.com/NVIDIA/k8s-device-plugin/internal/info.version=$(NVIDIA_PLUGIN)' \
		github.com/NVIDIA/k8s-device-plugin/cmd/nvidia-device-plugin github.com/NVIDIA/k8s-device-plugin/cmd/gpu-feature-discovery
	GOWORK=off CGO_ENABLED=1 go build -C .ci/gpu/dradriver -trimpath -ldflags '-s -w -extldflags=-Wl,-z,lazy' -o '$(CURDIR)/bin/gpu/' \
		sigs.k8s.io/dra-driver-nvidia-gpu/cmd/gpu-kubelet-plugin
	@cp $(GPU_RECORDING)/cases.json bin/gpu/cases.json

.PHONY: gpu-recording
gpu-recording: gpu-recorder ## Record NVIDIA's programs anew, as root on a machine with a GPU and without a kubelet (DRIVER_ROOT=/run/nvidia/driver)
	$(SUDO) bin/gpu/record -programs bin/gpu -cases bin/gpu/cases.json -version $(NVIDIA_PLUGIN) > bin/gpu/recording.json
	$(SUDO) bin/gpu/record -programs bin/gpu -dra -driver-root '$(or $(DRIVER_ROOT),/)' -version $(NVIDIA_DRA_DRIVER) > bin/gpu/dra.json
	@cp bin/gpu/recording.json bin/gpu/dra.json $(GPU_RECORDING)/
	go test -count=1 ./reconciler/deviceplugin/recording ./provision/sandbox/nodes/internal/...

# axe.min.js of axe-core, by which make browser checks every page besides its own checks.
AXE ?=
.PHONY: axe
axe:
	@if [[ '$(AXE)' != skip && ! -f '$(AXE)' ]]; then \
		echo 'make browser checks each page by axe-core, which the Go module proxy does not have: give AXE=path/to/axe.min.js, which the npm package axe-core and the PyPI package axe-playwright-python contain, or AXE=skip to check without it' >&2; \
		exit 2; \
	fi

.PHONY: browser
browser: axe build ## Open the page of poolwright ui in Chromium, in a sandbox, and check what the browser reports (AXE=axe.min.js or skip)
	GOWORK=off go -C .ci/browser test -count=1 -timeout 20m . -root '$(CURDIR)' -axe '$(if $(filter skip,$(AXE)),skip,$(abspath $(AXE)))' $(ARGS)

.PHONY: screenshots
screenshots: ## Write the pictures of the page of poolwright ui in docs/images anew
	@$(MAKE) browser ARGS='-images $(CURDIR)/docs/images'

# Where make pages writes.
PAGES ?= bin/pages
.PHONY: pages
pages: ## Write each page of poolwright ui as a picture and as text into PAGES, with questions for who reads nothing else
	@$(MAKE) browser ARGS="-run 'TestThePageInABrowser/.*_light_1280' -pages '$(abspath $(PAGES))'"

.PHONY: prove
prove: build ## Prove every scenario with every fault, and every control (ARGS="-o json")
	@bin/poolwright-sandbox prove --controls $(ARGS)

.PHONY: proof
proof: build ## Write docs/proof.md anew (ARGS="--only-controls --run fence", or ARGS="--run interruption", and the other numbers stay)
	@# The page also shows what was violated or not found.
	@status=0; bin/poolwright-sandbox prove $(if $(ARGS),,--controls) -o markdown --page docs/proof.md $(ARGS) > docs/proof.md.new || status=$$?; \
	[[ -s docs/proof.md.new ]] && mv docs/proof.md.new docs/proof.md; exit $$status

.PHONY: prove-smoke
prove-smoke: build ## Prove a few cases, in a few minutes
	@bin/poolwright-sandbox prove --run '$(SMOKE)' $(ARGS)

.PHONY: prove-scale
prove-scale: build ## Prove random operations in a repository of as many objects as a Sync may have, for an hour (ARGS=--for=15m)
	@bin/poolwright-sandbox prove random --objects 9900 --for 1h --deadline 15m $(ARGS)

.PHONY: test
test: ## Run every test; the first time this also builds the sandbox's programs
	go test -p $(PARALLEL) -timeout 60m $(ARGS) ./...
	GOWORK=off go -C .ci/release test ./...
	GOWORK=off go -C .ci/chart test ./...
	GOWORK=off go -C .ci/monitoring test ./...
	GOWORK=off go -C .ci/argocd test ./...
	GOWORK=off go -C .ci/gpu test ./...
	GOWORK=off go -C examples/pingvas/worker test ./...

# Flux's controllers and their CRDs, for what runs beside them, and the registry from which source-controller fetches the chart.
.PHONY: flux
flux:
	@mkdir -p $(CACHE)/interop/crds
	GOWORK=off go build -C .ci/interop -trimpath -ldflags '-s -w' -o $(CACHE)/interop/ $(addprefix github.com/fluxcd/,$(INTEROP)) github.com/google/go-containerregistry/cmd/registry
	@for name in $(INTEROP); do \
		install -m 644 $$(GOWORK=off go -C .ci/interop list -m -f '{{.Dir}}' github.com/fluxcd/$$name)/config/crd/bases/*.yaml $(CACHE)/interop/crds/; \
	done

# Argo CD, whose components are one program, its CRDs and the settings that it is installed with, the Redis that it needs, and what its repo-server runs: Helm, and a script beside Git.
.PHONY: argocd
argocd:
	@mkdir -p $(CACHE)/interop/argocd/crds
	GOWORK=off go build -C .ci/interop/argocd -trimpath -ldflags '-s -w' -o $(CACHE)/interop/argocd/argocd github.com/argoproj/argo-cd/v3/cmd
	GOWORK=off go build -C .ci/interop/argocd -trimpath -o $(CACHE)/interop/argocd/redis ./redis
	GOWORK=off go build -C .ci/chart -trimpath -ldflags '-s -w' -o $(CACHE)/interop/argocd/helm helm.sh/helm/v4/cmd/helm
	@folder=$$(GOWORK=off go -C .ci/interop/argocd list -m -f '{{.Dir}}' github.com/argoproj/argo-cd/v3); \
	install -m 644 $$folder/manifests/crds/*-crd.yaml $(CACHE)/interop/argocd/crds/; \
	install -m 644 $$folder/manifests/base/config/argocd-cm.yaml $(CACHE)/interop/argocd/; \
	install -m 755 $$folder/hack/git-verify-wrapper.sh $(CACHE)/interop/argocd/

.PHONY: interop
interop: flux argocd ## Run Syncs beside the real Flux and the real Argo CD, built from their modules in .ci/interop and .ci/interop/argocd
	POOLWRIGHT_INTEROP=$(CACHE)/interop go test -count=1 -timeout 60m -v -run '^TestInterop' ./cmd/internal/e2e $(ARGS)

# What scales the workers of examples/pingvas, for its test. Prometheus is built without its service discoveries and its page.
.PHONY: setups
setups: ## Scale the workers of pingvas with the real KEDA and Prometheus, built from their modules in .ci/setups (POOLWRIGHT_LONG=1)
	@mkdir -p $(CACHE)/setups/crds
	GOWORK=off go build -C .ci/setups/prometheus -trimpath -tags remove_all_sd -ldflags '-s -w' -o $(CACHE)/setups/ github.com/prometheus/prometheus/cmd/prometheus
	GOWORK=off go build -C .ci/setups/keda -trimpath -ldflags '-s -w' -o $(CACHE)/setups/ github.com/kedacore/keda/v2/cmd/operator github.com/kedacore/keda/v2/cmd/adapter
	GOWORK=off go build -C examples/pingvas/worker -trimpath -o $(CACHE)/setups/ . ./broker
	@install -m 644 $$(GOWORK=off go -C .ci/setups/keda list -m -f '{{.Dir}}' github.com/kedacore/keda/v2)/config/crd/bases/*.yaml $(CACHE)/setups/crds/
	POOLWRIGHT_SETUPS=$(CACHE)/setups go test -count=1 -timeout 60m -v -run '^TestSetupPingvasScales' ./cmd/internal/e2e $(ARGS)

.PHONY: lint
lint: vet-modules golangci ## Check formatting, vet and the linters of .golangci.yml
	@unformatted=$$(gofmt -l $(FOLDERS)); \
	if [[ -n $$unformatted ]]; then printf 'not formatted, run gofmt -w on:\n%s\n' "$$unformatted" >&2; exit 1; fi

.PHONY: vet
vet: vet-modules ## Run go vet on every module, and check the product for Linux on arm64 and for macOS
	go vet ./...

# Without the product's own module, of which golangci runs govet.
.PHONY: vet-modules
vet-modules:
	@# With the sandbox's own build flags, so that what is compiled here is not compiled again.
	GOWORK=off go -C .ci/release vet ./...
	GOWORK=off go -C .ci/chart vet ./...
	GOWORK=off go -C .ci/monitoring vet ./...
	GOWORK=off go -C .ci/argocd vet ./...
	GOWORK=off go -C .ci/gpu vet ./...
	GOWORK=off go -C .ci/browser vet ./...
	GOWORK=off go -C examples/pingvas/worker vet ./...
	GOWORK=off go -C .ci/interop/argocd vet ./redis
	@# For the other platforms of a release by the sources: GOOS=darwin go vet compiles 1,500 packages first.
	GOWORK=off go run -C .ci/release ./platforms -root '$(CURDIR)'
	cd provision/sandbox/controlplane && CGO_ENABLED=0 GOWORK=off go vet -trimpath ./...
	cd provision/sandbox/forge && CGO_ENABLED=1 GOWORK=off go vet -trimpath -tags sqlite,sqlite_unlock_notify ./...

.PHONY: golangci
golangci: ## Run the linters of .golangci.yml (ARGS=--fix mends what they can)
	@linter=$(CACHE)/golangci-lint-$(LINT_VERSION)-$$(go env GOVERSION); \
	if [[ ! -x $$linter ]]; then \
		echo "building golangci-lint $(LINT_VERSION): the first time this takes minutes, then it is kept in $(CACHE)"; \
		mkdir -p $(CACHE); \
		GOWORK=off go build -C .ci/lint -ldflags '-s -w' -o $$linter.new github.com/golangci/golangci-lint/v2/cmd/golangci-lint; \
		mv $$linter.new $$linter; \
	fi; \
	GOLANGCI_LINT_CACHE=$(CACHE)/golangci-lint-cache $$linter run --timeout 20m --allow-serial-runners $(ARGS) ./...; \
	cd examples/pingvas/worker && GOWORK=off GOLANGCI_LINT_CACHE=$(CACHE)/golangci-lint-cache $$linter run --timeout 20m --allow-serial-runners $(ARGS) ./...

.PHONY: verify
verify: generate lint ## Check that generated files are up to date and the linters find nothing
	@git diff --exit-code --stat -- reconciler/api config/crd || { echo 'generated files were stale; commit what make generate made' >&2; exit 1; }

.PHONY: generate
generate: ## Make deep copies and CRDs from reconciler/api
	$(CONTROLLER_GEN) object paths=./reconciler/api/...
	$(CONTROLLER_GEN) crd paths=./reconciler/api/... output:crd:dir=config/crd

.PHONY: golden
golden: ## Rewrite every golden file; read the diff before you commit it
	go test -p $(PARALLEL) -timeout 30m $(call packages_with,poolwright/internal/golden"$$) -update
	GOWORK=off go -C .ci/chart test . -update
	GOWORK=off go -C .ci/argocd test . -update

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME each
	@scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
	for package in $(call packages_with,^func Fuzz); do \
		go test -c $(FUZZBUILD) -o $$scratch/test $$package; \
		(cd $$package && $$scratch/test -test.list '^Fuzz') > $$scratch/list; \
		for name in $$(grep '^Fuzz' $$scratch/list); do \
			echo "== $$name in $$package"; \
			(cd $$package && $$scratch/test -test.run '^$$' -test.fuzz "^$$name\$$" -test.fuzztime $(FUZZTIME) -test.fuzzcachedir $(CACHE)/fuzz </dev/null); \
		done; \
	done

# Karpenters that clusters move from, each with its CRDs, from the modules of .ci/karpenter.
OLD_KARPENTERS := $(notdir $(wildcard .ci/karpenter/*))
.PHONY: old-karpenters
old-karpenters:
	@for minor in $(OLD_KARPENTERS); do \
		in="env GOWORK=off go -C .ci/karpenter/$$minor"; to=$(CACHE)/old-karpenters/$$minor; mkdir -p $$to/crds; \
		version=$$($$in list -m -f '{{.Version}}' github.com/aws/karpenter-provider-aws); \
		$$in build -trimpath -ldflags "-s -w -X sigs.k8s.io/karpenter/pkg/operator.Version=$${version#v}" -o $$to/controller github.com/aws/karpenter-provider-aws/cmd/controller; \
		install -m 644 $$($$in list -m -f '{{.Dir}}' github.com/aws/karpenter-provider-aws)/pkg/apis/crds/*.yaml $$to/crds/; \
	done

.PHONY: test-long
test-long: old-karpenters ## Run what takes minutes: 200 predicted changes, clusters that move from an older Karpenter, delays as written, a promotion by pull requests, all demos, three ways of a newcomer
	POOLWRIGHT_LONG=1 go test -timeout 60m ./provision/simulate -run TestRandomChanges -v
	POOLWRIGHT_LONG=1 POOLWRIGHT_KARPENTER=$(CACHE)/old-karpenters go test -count=1 -timeout 90m ./cmd/internal/e2e -v \
		-run '^(TestAClusterMovesFromItsCharts|TestAClusterOfV1alpha5IsDrained|TestAClusterIsDrained|TestDelaysAsWritten|TestAChangeOfPikselIsPromotedByPullRequests|TestTheDemosOfAllSetUps)$$'
	@# Without anything beside them: they fail where a newcomer waits for more than five minutes.
	POOLWRIGHT_LONG=1 go test -count=1 -timeout 60m -parallel 1 ./cmd/internal/e2e -v \
		-run '^(TestTheChartIsInstalledUpgradedAndUninstalled|TestKustomizeInstallsByARemoteReference|TestInstallingAndUninstallingFromALaptop)$$'

.PHONY: attack
attack: ## Search SEARCHED hostile repositories for those that cost the most, by SEED
	go test -count=1 -timeout 120m -run '^TestNoTrialOfASeed' -v ./cmd/poolwright-sandbox/attack -seed $(SEED) -trials $(SEARCHED) -seconds 20

.PHONY: race
race: ## Run the tests of the packages in RACE with the race detector
	CGO_ENABLED=1 go test -race -timeout 30m $(RACE)
	@# Its other tests ask git thousands of times, which takes minutes and has nothing to do with races.
	CGO_ENABLED=1 go test -race -timeout 30m -run AtOnce ./gitsource/gogit

.PHONY: vuln-tool
vuln-tool:
	@$(GOVULNCHECK) -h >/dev/null 2>&1 || { $(GOVULNCHECK) -h; exit 1; }

.PHONY: vuln-db
vuln-db: ## Check that the database of known vulnerabilities can be read
	@$(GOVULNCHECK) -db '$(GOVULNDB)' -version | grep '^DB updated' || { echo 'no database of vulnerabilities at $(GOVULNDB)' >&2; exit 1; }

.PHONY: vuln
vuln: build ## Find known vulnerabilities in bin/poolwright (GOVULNDB=database)
	$(GOVULNCHECK) -db '$(GOVULNDB)' -mode binary bin/poolwright

.PHONY: bench
bench: ## Measure what the design promises, as ratios within one run
	go test -p 1 -timeout 30m -run '^$$' -bench . -benchmem $(ARGS) $(call packages_with,^func Benchmark)
	@# Memory is a whole process's, so it is read from a real controller in a sandbox.
	go test -count=1 -timeout 30m -run '^TestTheControllerStaysSmall' -v ./cmd/internal/e2e
	@# Both are of one run: what else the machine does is in both.
	POOLWRIGHT_LONG=1 go test -count=1 -timeout 30m -run '^TestViewersOfThePage' -v ./cmd/internal/e2e

# The Karpenter that everybody runs, of the version that is embedded.
KARPENTER_VERSION := $(shell sed -n 's|.*aws/karpenter-provider-aws v||p' go.mod)
.PHONY: karpenter
karpenter:
	@mkdir -p $(CACHE)/karpenter
	go build -buildvcs=false -trimpath -ldflags '-s -w -X sigs.k8s.io/karpenter/pkg/operator.Version=$(KARPENTER_VERSION)' \
		-o $(CACHE)/karpenter/controller github.com/aws/karpenter-provider-aws/cmd/controller

.PHONY: bench-compare
bench-compare: build flux karpenter ## Measure Poolwright beside Flux and a stock Karpenter, and write docs/performance.md (ARGS="--rounds 3 --node-rounds 3")
	@# As it is shipped: symbols and debugging information are 50 MiB of the file.
	go build -ldflags '-s -w' -o $(CACHE)/karpenter/poolwright ./cmd/poolwright
	bin/poolwright-sandbox bench --poolwright $(CACHE)/karpenter/poolwright --flux $(CACHE)/interop --karpenter $(CACHE)/karpenter/controller \
		--page docs/performance.md --results $(CACHE)/bench-compare.json $(ARGS) \
		--versions "Poolwright $$(git describe --tags --always)$$(git diff --quiet HEAD -- . ':!docs/performance.md' || echo -dirty), Karpenter $(KARPENTER_VERSION), source-controller and kustomize-controller $$(sed -n 's|.*fluxcd/kustomize-controller \(v[^ ]*\).*|\1|p' .ci/interop/go.mod), built with $$(go env GOVERSION)"

.PHONY: image
image: ## Write the container image to dist/image as an OCI image layout (VERSION=v1.0.0, PUSH=registry/name)
	@GOWORK=off go run -C .ci/release . -root '$(CURDIR)' -version '$(VERSION)' -revision "$$(git rev-parse HEAD)" \
		-created "$$(git log -1 --format=%ct)" $(if $(PUSH),-push '$(PUSH)') $(ARGS)

.PHONY: release
release: ## Write the image to dist/image and a release's files to dist/release, offline (VERSION=v1.0.0, IMAGE=registry/name)
	@[[ -z $$(git status --porcelain) ]] || { echo 'some changes are in no commit, which a release names: commit or stash them' >&2; exit 1; }
	@GOWORK=off go run -C .ci/release . -root '$(CURDIR)' -version '$(VERSION)' -revision "$$(git rev-parse HEAD)" \
		-created "$$(git log -1 --format=%ct)" -files dist/release -repository '$(IMAGE)' -builder '$(BUILDER)' $(if $(PUSH),-push '$(PUSH)') $(ARGS)

.PHONY: clean
clean: ## Remove what was built here, the cache included
	rm -rf bin dist $(CACHE)
