# The three commands people need are `make up`, `make test` and `make bench`.

GO    ?= go
BERTH := bin/berth

# The compiler and the linker may use more memory (GOGC): collecting garbage takes them a quarter of their time otherwise. What they make
# is the same, so a plain `go test` finds it in the cache.
ifeq ($(findstring -toolexec,$(GOFLAGS)),)
export GOFLAGS := $(strip $(shell $(GO) env GOFLAGS) '-toolexec=env GOGC=400')
endif

.PHONY: up build plugin operators test drawn stories race fuzz verify soak bench bench-live packing chaos failover test-node test-helm test-older conformance mutate mutations dist image vuln lint fmt clean

up: build ## build Berth and start a cluster (ARGS="--fleet research-128" and so on)
	@$(BERTH) up $(ARGS)

build:
	@GO="$(GO)" scripts/build $(BERTH) ./cmd/berth

plugin: ## build bin/kubectl-berth, as it is released: without C, stripped
	CGO_ENABLED=0 $(GO) build -trimpath -gcflags=all=-dwarf=false -ldflags "-s -w" -o bin/kubectl-berth ./cmd/kubectl-berth

operators: ## build bin/berth-operators, the controllers of other projects for `berth up --with`; see docs/operators.md
	@GO="$(GO)" scripts/operators

# The stories of cmd/berth run real clusters against the clock, so nothing else runs beside them.
# Properties draw their cases from SEED, so that a commit passes or fails for good. A part of them is then run with a seed
# that nobody has seen, DRAWN, and `make soak` runs many. The corpus of diagnosis is drawn anew each time, and scored. Of
# the causes that TestWhy brings about on real clusters, of the stories and of the pages of docs a third is drawn;
# `make stories` plays them all. A story that fails is told once more, alone: what fails twice is broken, and what fails once
# stands in the log under "Failed".
SEED  ?= 1
SCORES = ^TestScore(UnderNoise)?$$
# What computes makes garbage fast: tests of the engine take a third less processor time with this much room. What measures memory sets
# its own GOGC. The stories run berth as its users do.
ROOMY  = GOGC=400 GOMEMLIMIT=4GiB
DRAWN ?= $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')

test: ## all tests; needs Go and make (SEED=2 for other random cases)
	$(ROOMY) RAPID_SEED=$(SEED) $(GO) test -timeout 20m -skip '$(SCORES)' $$($(GO) list ./... | grep -v /cmd/berth$$)
	@$(MAKE) --no-print-directory drawn
	@$(ROOMY) $(GO) test -count 1 -v -run '$(SCORES)' ./diagnose
	$(GO) tool -modfile=go.tools.mod gotestsum --format pkgname --hide-summary skipped --rerun-fails=1 --rerun-fails-max-failures=20 --packages ./cmd/berth -- -timeout 30m -parallel 3 -short

drawn: ## the property tests of engine and kube with a new seed, which is printed (DRAWN=1234 replays one)
	@seed=$(DRAWN); echo "drawn seed $$seed; replay with: make drawn DRAWN=$$seed"; \
	$(ROOMY) RAPID_SEED=$$seed RAPID_CHECKS=25 $(GO) test -count 1 -short ./engine/... ./kube/cluster ./kube/convert ./kube/scheduler

stories: build ## every story of the command line, every cause of `berth why`, and charts beside the stock scheduler, on real clusters
	$(GO) test -count 1 -timeout 60m ./cmd/berth
	BERTH=$(abspath $(BERTH)) $(GO) test -count 1 -timeout 30m -run 'TestChartsLive$$' ./internal/conformance

# The packages that start goroutines: the pure ring may not (internal/archtest). Short: what takes long without the
# detector is left out.
CONCURRENT = ./kube/answer ./kube/inspect ./kube/scheduler ./record ./fleet ./fleet/kubelet ./fleet/stream ./fleet/shell/budget

race: ## tests of packages with goroutines, under the race detector (SOME=3 draws three packages)
	CGO_ENABLED=1 RAPID_SEED=$(SEED) RAPID_CHECKS=20 $(GO) test -race -short $(if $(SOME),$$(printf '%s\n' $(CONCURRENT) | shuf -n $(SOME)),$(CONCURRENT))

verify: ## everything, for hours: stories, soak, chaos, conformance, mutate, mutations, fuzz; resumes where it stopped
	@MAKE="$(MAKE)" scripts/verify $(ARGS)

# A million cycles of small worlds (CYCLES), then the properties on CHECKS cases each. A failure names its world: SOAK_WORLD=n
# lives it again. Worlds that have been lived are noted in LOG, if there is one: with the same LOG it goes on where it
# stopped. Another build needs another LOG. Then ten thousand pods with parts of GPUs live under the eyes of a referee, and Kubernetes'
# allocator judges ten thousand clusters with claims.
soak: ## a million random cycles, and the engine's properties on many more cases (CYCLES=100000 CHECKS=5000 SEED=2 LOG=soak.log)
	SOAK_LOG=$(abspath $(LOG)) SOAK_CYCLES=$(or $(CYCLES),1000000) RAPID_SEED=$(SEED) $(GO) test -count 1 -timeout 120m -v -run 'TestSoak$$' ./engine
	RAPID_CHECKS=$(or $(CHECKS),1000) $(GO) test -count 1 -timeout 60m ./engine/...
	PART_LIVES=10000 PART_SEED=$(SEED) $(GO) test -count 1 -timeout 60m -v -run 'TestPartsOverManyLives$$' ./kube/scheduler
	REFEREE_WORLDS=10000 $(GO) test -count 1 -timeout 60m -v -run 'TestClaimsAsUpstream$$' ./kube/cluster

fuzz: ## every fuzz target in turn, for a minute in all (FOR=1h PATTERN=FuzzQueue; SOME=4 draws four packages)
	@GO="$(GO)" scripts/fuzz

bench: ## benchmarks; figures go to docs/performance.md (PATTERN=Engine COUNT=6 and so on)
	@GO="$(GO)" scripts/bench

bench-live: build ## the live scheduler beside the stock one and beside bare bindings, about half an hour (ARGS="-scale 0.1 -only pods500")
	@GO="$(GO)" scripts/build bin/bench-live ./bench/live
	@bin/bench-live -berth $(BERTH) $(ARGS)

packing: ## the tables of docs/packing.md, half an hour; BERTH_TRACES names the folder with the traces (ARGS="-only mig")
	@$(GO) run ./engine/internal/packing $(ARGS)

chaos: build ## break a cluster for an hour and check it at rest (FOR=5m SEED=7), or let 10,000 pods with parts of GPUs live (PARTS=10000); see docs/chaos.md
	$(GO) run ./internal/chaos -berth $(BERTH) $(if $(PARTS),-parts $(PARTS),-for $(or $(FOR),1h)) -seed $(SEED)

# One node of the cluster is real: kubelet, containerd and runc in namespaces of their own. It needs root, and is skipped, by name,
# where the machine does not allow it.
test-node: ## gangs, faults and the scheduler's image on a real node (ARGS="-nodes=500", ARGS="-story=lives -lives=1000"); see docs/node.md
	@GO="$(GO)" MAKE="$(MAKE)" scripts/node $(ARGS)

test-helm: ## the chart on a real node, with Helm itself: install, upgrade, roll back, remove; see docs/node.md
	@GO="$(GO)" MAKE="$(MAKE)" scripts/node -story=chart $(ARGS)

# The API server and etcd of another Kubernetes, on loopback. Compiling them takes longer than CI has.
test-older: ## kubectl-berth on the API servers of older Kubernetes (ARGS="v1.35"); see docs/versions.md
	@GO="$(GO)" scripts/older $(ARGS)

failover: build ## measure how long nothing is bound when the leading scheduler is killed 50 times and updated 10 times under load (ARGS="-kills 5 -rolls 2")
	$(GO) run ./internal/failover -berth $(BERTH) $(ARGS)

conformance: ## upstream's own scheduler tests against Berth, about 10 minutes (ARGS="-run TestPodGroup"); see docs/conformance.md
	$(GO) run ./internal/conformance/upstream $(ARGS)

mutate: ## disable the engine's rules one by one: a test must fail for each (ARGS="-run index")
	$(GO) run ./internal/mutate $(ARGS)

# One cluster, a field of a live object broken at a time, and every counted answer of `berth why` scored.
mutations: build ## break fields of live objects and score berth why (COUNT=500 SEED=7 ARGS="-fixes 0"); see docs/mutations.md
	$(GO) run ./internal/breakage -berth $(BERTH) -count $(or $(COUNT),50) $(if $(filter command line,$(origin SEED)),-seed $(SEED)) $(ARGS)

VERSION ?= $(shell sed -n 's/^const Version = "\(.*\)"/\1/p' cli/cli.go)

dist: ## kubectl-berth for linux and darwin, reproducible, with checksums, SBOM, manual and krew's manifest, in dist/ (TARGETS=linux/amd64 KEY=key.pem)
	@GO="$(GO)" KEY="$(KEY)" scripts/dist $(VERSION) $(TARGETS)

image: ## the scheduler's image as an OCI tar, without Docker, in dist/ (IMAGE=registry.example/berth:v1 ARCHS=amd64)
	@GO="$(GO)" scripts/dist $(VERSION) $(patsubst %,linux/%,$(or $(ARCHS),amd64 arm64))
	$(GO) run ./internal/image -name $(or $(IMAGE),berth:$(VERSION)) -o dist/berth-$(VERSION)-image.tar $(foreach a,$(or $(ARCHS),amd64 arm64),$(a)=dist/linux-$(a)/kubectl-berth)

vuln: build ## known vulnerabilities in what bin/berth links; skipped where the database cannot be reached
	@GO="$(GO)" scripts/vuln $(BERTH)

# Staticcheck analyses what a package imports too, and all of Kubernetes takes it five minutes: CI leaves out the packages that
# compile it.
KUBERNETES = /(controlplane(/.*)?|cmd/berth|bench/live|internal/conformance(/.*)?)$$

lint: ## vet, staticcheck, architecture (QUICK=1 without staticcheck of the packages that compile Kubernetes)
	$(GO) vet ./...
	$(GO) tool -modfile=go.tools.mod staticcheck $(if $(QUICK),$$($(GO) list ./... | grep -vE '$(KUBERNETES)'),./...)
	$(GO) test ./internal/archtest

fmt:
	gofmt -w $$(git ls-files '*.go')

clean:
	rm -rf bin dist
