# What the five worked examples of taking over an outbox share: their servers, the relay, and how a run ends.
#
# An example sets NAME, its preset and database; SERVERS; PROGRAMS, with one recipe each: `@$(start) PROGRAM`; VARIABLES, its own
# ones; and makes what is missing in `prepared`.
ROOT := $(abspath ../..)
TARGET := $(abspath $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),$(ROOT)/target))
# Each program that runs writes its process id into this folder, and its log.
RUN ?= .run

# Written by `make servers`: POSTGRES_AT, KAFKA_AT, …, addresses with ports. What the environment says goes first.
-include .servers

export PATH := $(TARGET)/debug:$(PATH)
export DATABASE_URL ?= postgres://postgres@$(POSTGRES_AT)/$(NAME)
export POSTROOM_PRESET ?= $(NAME)
# The service's page and the relay's console, API and /metrics.
export LISTEN ?= 127.0.0.1:8000
export POSTROOM_HTTP__LISTEN ?= 127.0.0.1:7480

start = mkdir -p $(RUN) && echo $$$$ > $(RUN)/$@.pid && exec

.PHONY: run business prepared servers database env tables relay stop $(PROGRAMS) old

# Everything, until `make stop` or Ctrl-C.
run: prepared
	@$(MAKE) --no-print-directory --jobs=9 $(PROGRAMS) relay

# The same without the relay: what stays as it is when the old worker makes way for it.
business: prepared
	@$(MAKE) --no-print-directory --jobs=9 $(PROGRAMS)

# Real servers with data of their own, on free ports; one example at a time. `cargo xtask services down` stops them.
servers:
	cd $(ROOT) && cargo build --quiet --package postroom-cli --bin postroom
	cd $(ROOT) && cargo xtask services up $(SERVERS) > $(CURDIR)/.servers.new
	awk '$$4 == "up" { print toupper($$1) "_AT ?= " $$2 }' .servers.new > .servers && rm .servers.new
	$(MAKE) --no-print-directory database

database:
	psql --quiet --no-align --tuples-only --command "select 'there' from pg_database where datname = '$(NAME)'" postgres://postgres@$(POSTGRES_AT)/postgres \
	  | grep --quiet there || psql --quiet --command 'create database $(NAME)' postgres://postgres@$(POSTGRES_AT)/postgres

# For the shell in which you type `postroom` and `psql`: eval "$(make -s env)"
env:
	@: $(info export PATH="$(TARGET)/debug:$$PATH")$(foreach name,DATABASE_URL POSTROOM_PRESET LISTEN POSTROOM_HTTP__LISTEN $(VARIABLES),$(info export $(name)='$($(name))'))

tables:
	@PGOPTIONS=--client-min-messages=warning psql --quiet --set=ON_ERROR_STOP=1 --file=schema.sql "$(DATABASE_URL)"

relay:
	@$(start) postroom relay run

# Ends the programs of this folder in good order, all or one of them, and waits until they have ended.
stop:
	@for pid in $$(ls $(RUN)/*.pid 2> /dev/null); do $(MAKE) --no-print-directory stop-$$(basename $$pid .pid); done

stop-%:
	@kill -TERM $$(cat $(RUN)/$*.pid) 2> /dev/null || true; tail --pid=$$(cat $(RUN)/$*.pid) -f /dev/null; rm $(RUN)/$*.pid

# As a crash ends a program.
kill-%:
	@kill -KILL $$(cat $(RUN)/$*.pid); rm $(RUN)/$*.pid
