# Thin names for what CONTRIBUTING.md says in full. Everything works without make.

.PHONY: test race lint fuzz bench test-versions ci

test: ## installs what the tests need (Debian packages), and runs them on a real Postgres and a real NATS that they start themselves
	scripts/setup
	go test $(TESTFLAGS) ./...

race:
	go test -race ./...

lint:
	go vet ./...
	test -z "$$(gofmt -l $$(git ls-files '*.go'))"
	go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

fuzz: ## every fuzz target for a short time; FUZZTIME=1m for longer
	.ci/fuzz $(or $(FUZZTIME),10s)

bench:
	go test -run '^$$' -bench . -benchmem ./...

test-versions: ## the tests on Postgres 14 to 18, fetched from npm; VERSIONS="16 18" for some
	scripts/fetch-postgres.sh $(VERSIONS) | while read -r version bin; do \
	  echo "Postgres $$version"; SYNCD_TEST_PGBIN=$$bin go test -count=1 ./... || exit 1; \
	done

ci:
	.ci/run
