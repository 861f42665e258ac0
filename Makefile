# vramgc: `make` builds the library and the command, `make demo` shows them at work, `make check` and `make check-deep` run the tests.
# Both set up what they need by themselves; everything made or fetched lies under build/.

CC ?= gcc
OPTIMISE ?= -O2 -g
# Another compiler warns of other things: only our own checks (scripts/check) give WERROR=-Werror.
WERROR ?=
WARNINGS := -Wall -Wextra -Wconversion -Wno-deprecated-declarations $(WERROR)
VERSION := $(shell scripts/version)
# tests/mutants/ builds a copy.
SRC ?= src
override CPPFLAGS := -Iinclude -I$(SRC) -D_GNU_SOURCE $(CPPFLAGS)
override CFLAGS := -std=c11 $(OPTIMISE) $(WARNINGS) $(CFLAGS)
CPPFLAGS_ALL := $(CPPFLAGS) -DVRAMGC_VERSION='"$(VERSION)"'
CFLAGS_ALL := $(CFLAGS) -fPIC -fvisibility=hidden
# An installed toolkit (13) needs no download: make TOOLKIT_INCLUDE=/usr/local/cuda/include
TOOLKIT_INCLUDE ?=
ifeq ($(TOOLKIT_INCLUDE),)
CUDA_HEADERS := build/headers/stamp
CUDA_CPPFLAGS := -isystem build/headers/cu13/include -isystem tests/sim/compat
else
CUDA_HEADERS :=
CUDA_CPPFLAGS := -isystem $(TOOLKIT_INCLUDE) -isystem tests/sim/compat
endif
BUILD ?= build
# Each command as it is run, those of the tests, too.
ifeq ($(V),1)
.SHELLFLAGS := -xc
endif

.DEFAULT_GOAL := all
.PHONY: all demo check check-deep check-night bench lint clean help install check-python
.DELETE_ON_ERROR:

all: $(BUILD)/libvramgc.so $(BUILD)/vramgc

# Who types `make` alone is told what is next, where something was built.
ifeq ($(MAKELEVEL)|$(filter-out all,$(MAKECMDGOALS))|$(V),0||)
all: $(BUILD)/told
$(BUILD)/told: $(BUILD)/libvramgc.so $(BUILD)/vramgc
	@touch $@
	@echo "Built. Next: sudo make install, or without it $(BUILD)/vramgc run ./webui.sh"
endif

# --- the library ---

LIB_ROOMS := base cuda card hook process serve govern track python host heap policy vm store
LIB_SOURCES := $(foreach room,$(LIB_ROOMS),$(wildcard $(SRC)/$(room)/*.c)) $(wildcard $(SRC)/hook/*.S)
LIB_OBJECTS := $(patsubst $(SRC)/%,$(BUILD)/obj/%.o,$(LIB_SOURCES))

$(BUILD)/obj/%.c.o: $(SRC)/%.c Makefile | $(CUDA_HEADERS)
	@mkdir -p $(@D)
	@echo "  CC   $<"
	@$(CC) $(CPPFLAGS_ALL) $(CUDA_CPPFLAGS) $(CFLAGS_ALL) -ftls-model=initial-exec -MMD -MP -c $< -o $@

# Who tells the version is compiled again after a commit.
SAYS_VERSION := $(patsubst src/%,%,$(shell grep -l VRAMGC_VERSION src/*/*.c))
$(SAYS_VERSION:%=$(BUILD)/obj/%.o): $(BUILD)/version
$(BUILD)/version: always
	@mkdir -p $(@D)
	@echo '$(VERSION)' | cmp -s - $@ || echo '$(VERSION)' >$@
.PHONY: always

# PyTorch's out-of-memory error passes through these.
$(BUILD)/obj/hook/c10.c.o $(BUILD)/obj/cuda/errors.c.o: CFLAGS_ALL += -fexceptions

# Other interposers rewrite the first bytes of what they find in the driver: room for that, without
# an instruction that depends on where it stands.
$(BUILD)/obj/hook/driver%.o: CFLAGS_ALL += -fpatchable-function-entry=16

$(BUILD)/obj/%.S.o: $(SRC)/%.S Makefile
	@mkdir -p $(@D)
	@echo "  AS   $<"
	@$(CC) -I$(BUILD) -Isrc -c $< -o $@

# What the driver has and the table has not.
$(BUILD)/stubs.def: src/hooks.def scripts/exports Makefile | $(CUDA_HEADERS)
	@mkdir -p $(@D)
	@scripts/exports --stubs $(CC) $(CUDA_CPPFLAGS) > $@
$(BUILD)/obj/hook/stubs.c.o: CPPFLAGS_ALL += -I$(BUILD)
$(BUILD)/obj/hook/stubs.c.o $(BUILD)/obj/hook/stubs.S.o: $(BUILD)/stubs.def src/hook/stubs.h

# The export list is what the table says, dlsym, and the public functions; no version node, because
# only an unversioned symbol takes the place of cudaMalloc@libcudart.so.12 and of its sisters.
$(BUILD)/exports.map: src/hooks.def $(BUILD)/stubs.def include/vramgc.h scripts/exports
	@mkdir -p $(@D)
	BUILD=$(BUILD) scripts/exports --map > $@

$(BUILD)/libvramgc.so: $(LIB_OBJECTS) $(BUILD)/exports.map
	@echo "  LINK $@"
	@$(CC) $(CFLAGS_ALL) -shared -o $@ $(LIB_OBJECTS) -Wl,-soname,libvramgc.so \
	    -Wl,--version-script=$(BUILD)/exports.map -Wl,-z,defs,-z,relro,-z,now,-z,noexecstack $(LDFLAGS)

# --- the command, the simulated device, and the tests: each where it lives ---

# How many tests run side by side: most of them wait. Only `make check-deep` runs those that are tagged. Every test finds the same
# around it (tests/surroundings.bash), whatever is in the environment here.
BATS_JOBS ?= 4
AS_NEW := tests/as_new
BATS := $(AS_NEW) bats --timing --jobs $(BATS_JOBS)
BATS_QUICK := $(BATS) --filter-tags '!deep,!python'
# Where the system's bats is too old scripts/setup-python puts one there.
export PATH := $(CURDIR)/build/bats/bin:$(PATH)

# What `make check` runs is built before: steps that run side by side build nothing.
.PHONY: check-build
check-build: $(BUILD)/libvramgc.so $(BUILD)/vramgc

include $(sort $(wildcard src/cli/*.mk tests/*/*.mk))

# What `vramgc whatif` puts in front of the user's PyTorch: the simulated card of the tests, its driver, NVML and runtimes. It needs
# the public headers and names of three toolkits: where they are not fetched (TOOLKIT_INCLUDE) it is not made.
WHATIF_FILES := $(SIM_DRIVER) $(SIM)/nvml/libnvidia-ml.so.1 $(SIM_RUNTIMES)
ifneq ($(CUDA_HEADERS),)
all check-build: $(BUILD)/whatif/stamp
endif

$(BUILD)/whatif/stamp: $(WHATIF_FILES)
	@mkdir -p $(@D)
	@for file in $^; do strip --strip-unneeded -o $(@D)/$${file##*/} $$file || exit 1; done
	@touch $@

demo:
	@scripts/setup-system --for demo
	@$(MAKE) --no-print-directory all
	@scripts/demo

check:
	@scripts/setup-system --for check
	@scripts/check

check-deep:
	@scripts/setup-system --for deep
	@scripts/check --deep

check-night:
	@scripts/setup-system --for deep
	@scripts/check --night

# What must be true is looked at (src/base/debug.h), and nothing is optimised away: for gdb.
.PHONY: debug
debug:
	@$(MAKE) --no-print-directory BUILD=build/debug OPTIMISE="-O0 -g3 -fno-omit-frame-pointer -DDEBUG" all

# For editors and clang-tidy: how each file of src/ is compiled.
.PHONY: compile_commands
compile_commands: $(CUDA_HEADERS)
	@$(MAKE) -nB all | scripts/compile-commands > $(BUILD)/compile_commands.json
	@echo "$(BUILD)/compile_commands.json"

# Every random test with that many seeds.
SEEDS ?= 60
.PHONY: seeds
seeds: check-build
	@scripts/seeds $(SEEDS)

lint: all
	@scripts/check-layers $(BUILD)
	@scripts/check-style
	@BUILD=$(BUILD) scripts/exports --check $(BUILD)/libvramgc.so

# Downloads and the Python environment stay.
clean:
	rm -rf $(BUILD)/whatif $(BUILD)/obj $(BUILD)/unit $(BUILD)/hook $(BUILD)/bench $(BUILD)/libvramgc.so $(BUILD)/vramgc $(BUILD)/exports.map $(BUILD)/grafana-dashboard.json $(BUILD)/told

help:
	@echo "make          build/libvramgc.so and build/vramgc"
	@echo "make demo     the main job on a real PyTorch, without and with reclaim"
	@echo "make check    the tests, some minutes; make check-deep: the rest of them;"
	@echo "              make check-night: all mutants, seeds, each release again, some hours"
	@echo "make NAME-check   one part of these: unit hook vm govern e2e prove sim lab gpu sanitize mutants fuzz c10"
	@echo "                  scripts/check does the same, and what it needs before"
	@echo "make lint     layers, style, exports; make schema: src/show/schema.json; make proven: a proof of the simulated card"
	@echo "make simgpu   the simulated device alone (tests/sim/README.md)"
	@echo "make debug    both without optimisation, with their checks, in build/debug/; V=1 shows commands"
	@echo "make compile_commands   for editors and clang-tidy"
	@echo "make seeds SEEDS=60   each random test with so many seeds"
	@echo "make bench    ratios of cost, A/B interleaved; make wheels: the allocators of many PyTorch releases; make soak: long runs"
	@echo "make install  prefix=$(prefix), DESTDIR, bindir, libdir, includedir, mandir, datadir"
	@echo "make uninstall  takes the same variables; make clean leaves downloads and the Python environment"
	@echo "make deb, make wheel: a package of this tree; make dist: a release of its commit, and how to sign it; in $(PACKAGES)/;"
	@echo "              MAINTAINER='Name <address>' and HOMEPAGE=URL are told in them; without, who made the commit"
	@echo "Without network: TOOLKIT_INCLUDE=/usr/local/cuda/include, with the headers of CUDA 13"

-include $(LIB_OBJECTS:.o=.d)
