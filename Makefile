# Everything a person or CI does with this repository; bare `make` prints the list.

PYTHON ?= python3
UV := $(shell command -v uv 2>/dev/null || echo .uv/bin/uv)
RUN := .venv/bin/python
PYTEST := $(RUN) -m pytest
# Tests that need no cluster run on all cores, whole files in one process, the longest first (tests/conftest.py).
SPREAD := --numprocesses auto --dist loadfile --no-loadscope-reorder
CLUSTER := $(RUN) -m tests.e2e.cluster
CHART := charts/gpujob-operator

# Libraries of the CUDA build of PyTorch that no test calls; tests/torch_tree has stand-ins for them.
TORCH_WITHOUT := cuda-bindings cuda-pathfinder cuda-toolkit nvidia-cublas nvidia-cuda-cccl nvidia-cuda-cupti nvidia-cuda-nvrtc \
	nvidia-cudnn-cu13 nvidia-cufft nvidia-cufile nvidia-curand nvidia-cusolver nvidia-cusparse nvidia-cusparselt-cu13 \
	nvidia-nccl-cu13 nvidia-nvjitlink nvidia-nvshmem-cu13 nvidia-nvtx setuptools triton

BEGAN := $(shell date +%s)
SECONDS ?= 60

export PYTHONPATH := $(CURDIR)

.DEFAULT_GOAL := help

.PHONY: help
help: ## Prints this list.
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# uv where neither the PATH nor .uv has one.
WITH_UV = if [ ! -x "$(UV)" ] && ! command -v $(UV) >/dev/null 2>&1; then $(MAKE) --no-print-directory .uv/bin/uv; fi

.venv/ready: requirements/dev.txt pyproject.toml
	@$(WITH_UV)
	@echo "installing the locked dependencies into .venv (2 minutes; up to 7 on a busy machine)"
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv
	@$(UV) pip sync --quiet --compile-bytecode --require-hashes --python .venv/bin/python requirements/dev.txt
	@$(UV) pip install --quiet --no-deps --no-build-isolation --python .venv/bin/python --editable .
	@touch $@

.uv/bin/uv: requirements/uv.txt
	@echo "installing uv into .uv"
	@$(PYTHON) -m venv .uv 2>/dev/null || $(PYTHON) -m venv --without-pip .uv
	@if [ -x .uv/bin/pip ]; then .uv/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt; \
	else $(PYTHON) -m pip install --quiet --require-hashes --prefix .uv -r requirements/uv.txt; fi

.PHONY: demo
demo: .venv/ready ## Shows GPUJobs being placed on AMD and NVIDIA nodes of a real Kubernetes control plane.
	@DEMO_BEGAN=$(BEGAN) $(RUN) -m demo up

.PHONY: demo-down
demo-down: .venv/ready ## Ends the demo's operator and cluster and leaves nothing.
	@$(RUN) -m demo down

.PHONY: verify-on-gpu
verify-on-gpu: ## Runs small jobs on the GPUs of your cluster (kubectl's), deletes them, and packs what came of them into verify-on-gpu.tar.gz to send.
	@PATH="$(CURDIR)/.venv/bin:$$PATH" $(RUN) -m demo.on_gpus $(if $(NAMESPACE),--namespace $(NAMESPACE))

.PHONY: test
test: .venv/ready ## Checks everything: generated files, style, types, layers, unit tests, cases and end-to-end tests.
	@$(MAKE) --no-print-directory --jobs=2 verify lint binaries node-images
	$(RUN) -m tests.parts

.PHONY: test-fast
test-fast: .venv/ready ## Runs the tests that need no cluster.
	$(PYTEST) -m "not e2e" $(SPREAD)

.PHONY: search
search: .venv/ready ## Tries the properties on random examples for 60 s and prints the seed; SEED=7 tries those of seed 7, SECONDS=600 looks longer.
	@$(RUN) -m tests.search --seconds $(SECONDS) $(if $(filter command environment,$(word 1,$(origin SEED))),--seed $(SEED))

.PHONY: plans
plans: .venv/ready ## Plays 2,700 fault plans of a seed in virtual time (each write lost, doubled, late, …) and prints a table; SEED=2 draws others.
	@$(RUN) -m tests.simulation --seed $(SEED)

.PHONY: gangs
gangs: .venv/ready ## Plays 1,000 random orders of 20 gangs on 10 nodes in virtual time: none is half placed for longer than a minute; SEED=2 draws others.
	@$(RUN) -m tests.simulation --orders 1000 --seed $(SEED)

SEED ?= 1
SAMPLES ?= 10
MUTATED ?=

.PHONY: mutants
mutants: .venv/ready ## Puts SAMPLES random faults into each folder of gpujob and shows how many the tests of its room notice; SEED=2 draws others than those of the day, MUTATED="status fleet" takes these folders.
	@$(RUN) -m tests.mutants $(if $(filter command environment,$(word 1,$(origin SEED))),--seed $(SEED)) --samples $(SAMPLES) $(if $(MUTATED),--folders $(MUTATED))

.PHONY: test-e2e
test-e2e: binaries node-images ## Runs the tests on a real control plane.
	$(PYTEST) -m e2e

.PHONY: lint
lint: .venv/ready ## Checks style, types and that imports run downhill only.
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

.PHONY: format
format: .venv/ready ## Formats the code.
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

.PHONY: generate
generate: .venv/ready ## Writes the catalog's JSON from its YAML, the CRDs from the models, the runner's name, rules, dashboards, values' schema and table into the chart, and the pages of fields and reasons.
	$(RUN) -m gpujob.catalog.files.shipped
	$(RUN) -m gpujob.api.generate.crd crds $(CHART)/files/crds
	$(RUN) -m gpujob.render.runner_files $(CHART)/files/runner-name
	$(RUN) -m monitoring $(CHART)/files/monitoring
	$(RUN) -m charts $(CHART)
	$(RUN) -m gpujob.api.generate.reasons_page docs/reasons.md
	$(RUN) -m gpujob.api.generate.fields_page docs/fields.md

.PHONY: verify
verify: .venv/ready ## Fails when a generated file differs from its source.
	$(RUN) -m gpujob.catalog.files.shipped --check
	$(RUN) -m gpujob.api.generate.crd --check crds $(CHART)/files/crds
	$(RUN) -m gpujob.render.runner_files --check $(CHART)/files/runner-name
	$(RUN) -m monitoring --check $(CHART)/files/monitoring
	$(RUN) -m charts --check $(CHART)
	$(RUN) -m gpujob.api.generate.reasons_page --check docs/reasons.md
	$(RUN) -m gpujob.api.generate.fields_page --check docs/fields.md

.PHONY: binaries
binaries: .venv/ready ## Builds kube-apiserver, etcd, kwok and others from their Go modules into the user's cache (8 to 12 minutes on 2 cores, once).
	@$(CLUSTER) build
	@$(CLUSTER) build helm-3
	@$(CLUSTER) build release
	@$(CLUSTER) build gitops

.PHONY: torch
torch: .venv/ready ## Builds a PyTorch that runs on the CPU into the user's cache, for tests that import it or make an image of it.
	@$(RUN) -m tests.torch_tree

NODE_PACKAGES := runc containernetworking-plugins nftables conntrack iptables busybox-static iproute2 gcc binutils buildah mmdebstrap

.PHONY: node-packages
node-packages: ## Installs Debian's packages for real nodes, where it is root and they are missing; elsewhere it says nothing.
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! dpkg --status $(NODE_PACKAGES) >/dev/null 2>&1; then \
	apt-get update --quiet=2 && DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --no-install-recommends $(NODE_PACKAGES); fi

.PHONY: node-images
node-images: .venv/ready node-packages ## Builds what real nodes are made of into the user's cache (once, minutes); elsewhere it says what is missing.
	@$(RUN) -m tests.e2e.node build

.PHONY: nodes
nodes: .venv/ready node-packages ## Starts a cluster with real nodes (kubelet, containerd, simulated GPUs) and keeps it until Ctrl-C; needs root.
	@$(RUN) -m tests.e2e.node up

.PHONY: cluster-up
cluster-up: .venv/ready ## Starts a Kubernetes control plane with simulated AMD and NVIDIA nodes (CLUSTER=existing takes yours).
	@$(CLUSTER) up --nodes

.PHONY: cluster-down
cluster-down: .venv/ready ## Ends that control plane and leaves nothing.
	@$(CLUSTER) down

.PHONY: lock
lock: .venv/ready ## Locks the dependencies with hashes, into requirements/.
	$(UV) lock --quiet
	$(UV) export --quiet --format requirements-txt --no-emit-project --no-header --no-dev -o requirements/operator.txt >/dev/null
	$(UV) export --quiet --format requirements-txt --no-emit-project --no-header --no-dev --extra cli -o requirements/cli.txt >/dev/null
	$(UV) export --quiet --format requirements-txt --no-emit-project --no-header --extra cli -o requirements/dev.txt >/dev/null
	$(UV) export --quiet --format requirements-txt --no-header --no-annotate --only-group build -o requirements/build.txt >/dev/null
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate $(TORCH_WITHOUT:%=--no-emit-package %) requirements/torch.in -o requirements/torch.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate requirements/docs.in -o requirements/docs.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate requirements/release.in -o requirements/release.txt

.docs/venv/ready: requirements/docs.txt .venv/ready
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) .docs/venv
	@$(UV) pip sync --quiet --require-hashes --python .docs/venv/bin/python requirements/docs.txt
	@touch $@

.PHONY: docs
docs: .docs/venv/ready ## Builds the documentation site into .docs/site; a link or an anchor that leads nowhere fails it.
	@$(RUN) site/stage.py .docs/pages
	@NO_MKDOCS_2_WARNING=1 .docs/venv/bin/mkdocs build --strict --quiet --config-file site/mkdocs.yml

IMAGE ?= registry.example.com/gpujob-operator@sha256:0000000000000000000000000000000000000000000000000000000000000000
HELM ?= helm
ADDRESS ?= https://gpujob.dev/releases

.PHONY: chart
chart: .venv/ready ## Packs the chart with Artifact Hub's annotations and the image of IMAGE=REPOSITORY@DIGEST into dist/.
	@mkdir -p dist
	@$(RUN) -m release chart dist/chart/gpujob-operator --image $(IMAGE)
	@$(HELM) package --destination dist dist/chart/gpujob-operator

.PHONY: bundle
bundle: .venv/ready ## Makes the bundle for the Operator Lifecycle Manager in dist/bundle, from the chart.
	@mkdir -p dist
	@$(RUN) -m release bundle dist/bundle --image $(IMAGE) --helm $(HELM)

.PHONY: vex
vex: .venv/ready ## Writes the OpenVEX document of the image to dist/gpujob-operator.openvex.json.
	@mkdir -p dist
	@$(RUN) -m release vex dist/gpujob-operator.openvex.json --image $(IMAGE)

# Without .venv: runners of other platforms pack the plugin, and the tools of the tests need not exist there.
.release/venv/ready: requirements/cli.txt requirements/release.txt
	@$(WITH_UV)
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) .release/venv
	@$(UV) pip sync --quiet --require-hashes --python .release/venv/bin/python requirements/cli.txt requirements/release.txt
	@touch $@

.PHONY: plugin
plugin: .release/venv/ready ## Packs the command line for krew into dist/: a program for this machine, with Python in it.
	@mkdir -p dist
	@PYTHONPATH=$(CURDIR):$(CURDIR)/operator .release/venv/bin/python -m release plugin dist

.PHONY: krew
krew: .venv/ready ## Writes krew's manifest of all archives in dist/ to dist/gpujob.yaml; ADDRESS= says where they are published.
	@$(RUN) -m release krew dist/gpujob.yaml --address $(ADDRESS) dist/kubectl-gpujob-*.tar.gz

.PHONY: package
package: .venv/ready ## Builds the Python package, as source and as wheel, into dist/.
	@mkdir -p dist
	@$(RUN) -m hatchling build --directory dist >/dev/null

.PHONY: publish-package
publish-package: ## Publishes the Python package of dist/ to PyPI by the identity of the workflow that runs it.
	@$(UV) publish --trusted-publishing always dist/gpujob_operator-*.whl dist/gpujob_operator-*.tar.gz

.PHONY: notes
notes: .venv/ready ## Writes the changes of this version to dist/notes.md.
	@mkdir -p dist
	@$(RUN) -m release notes dist/notes.md

.PHONY: clean
clean: ## Removes the virtual environments and caches of this folder.
	rm -rf .venv .uv .docs .release dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
