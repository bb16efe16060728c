# Everything starts here: `make up` on a bare Debian or Ubuntu machine with a Rust toolchain.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
MAKEFLAGS += --no-print-directory

export CARGO_TARGET_DIR ?= $(CURDIR)/target
SKEP := $(CARGO_TARGET_DIR)/release/skep
DEMO := examples/demo

.PHONY: help
help: ## show this list
	@grep -hE '^[a-z%-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z%-]+):.*## /\1\t/' | while IFS=$$'\t' read -r name text; do printf '  make %-12s %s\n' "$$name" "$$text"; done

.PHONY: setup
setup: ## install what is missing and start the Docker engine
	@bash images/setup.sh

.PHONY: build
build: ## build target/release/skep
	@command -v cargo >/dev/null || { echo 'no Rust toolchain (cargo) found. Remedy: install Rust with rustup.' >&2; exit 1; }
	cargo build --release --locked

.PHONY: base
base: setup
	@bash images/build.sh base >/dev/null

.PHONY: images
images: setup ## make the base image and the agent image
	@bash images/build.sh agent >/dev/null

image-%: setup ## build an agent program's image: claude-code, codex, opencode
	@bash images/build.sh $* >/dev/null

.PHONY: up
up: images build ## set up, build, and start the demo hive
	@cd $(DEMO)
	"$(SKEP)" up -d
	"$(SKEP)" ps
	printf '%s\n' '' 'The demo hive runs. Next, in $(DEMO):' \
		'  alias skep=$(SKEP)' \
		'  skep ps              what runs' \
		'  skep logs AGENT -f   what an agent says' \
		'  skep shell AGENT     look around inside' \
		'  skep --help          everything else' \
		'Stop it with: make down'

.PHONY: down
down: ## stop the demo hive
	@[ -x "$(SKEP)" ] || { echo 'nothing is built, so nothing runs' >&2; exit 0; }
	cd $(DEMO)
	"$(SKEP)" down

.PHONY: judges
judges: images ## install what judges the API and the MCP server from outside
	@bash tests/judges/install.sh "$(CARGO_TARGET_DIR)/judges"

.PHONY: test
test: images judges ## run every check and test, those on a real engine included
	@cargo fmt --all --check
	cargo clippy --all-targets --features failpoints --locked -- -D warnings
	if cargo nextest --version >/dev/null 2>&1; then
		cargo nextest run --features failpoints --locked
		cargo test --doc --features failpoints --locked
	else
		echo 'cargo-nextest is not installed: using cargo test (get it with: cargo install cargo-nextest --locked)' >&2
		RUST_TEST_THREADS="$${RUST_TEST_THREADS:-3}" cargo test --features failpoints --locked --no-fail-fast
	fi

.PHONY: bench
bench: images ## run the benchmark and print its table
	@cargo bench --locked --bench resolve --bench hive --bench jobs --bench registry --bench tools

.PHONY: clean
clean: ## remove what cargo built (images and hives stay)
	cargo clean
