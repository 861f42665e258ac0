# The simulated device but for its driver (driver.mk): public headers, three runtimes, NVML, and
# stand-ins for a wheel's libraries.
#   simgpu, sim  everything; stand-ins for the wheel of PYTHON or build/venv, where there is one
#   sim-vendor   those stand-ins only
#   sim-check    its tests

SIM := build/sim
SIM_CC ?= $(CC)
SIM_CFLAGS := -ffile-prefix-map=$(CURDIR)=. -std=c11 -D_GNU_SOURCE  -O2 -g -fPIC -Wall -Wextra -Wconversion $(WERROR)
CUDA_HEADERS ?= build/headers/stamp

simgpu: sim
	@echo "Built. Next: scripts/simgpu --mem 8GiB -- COMMAND; tests/sim/README.md"

sim: sim-driver sim-runtimes $(SIM)/nvml/libnvidia-ml.so.1 sim-vendor-if-torch

$(CUDA_HEADERS): scripts/fetch-cuda-headers
	@scripts/fetch-cuda-headers
	@touch $@

# For rules that name a header.
build/headers/cu13/include/cuda.h: $(CUDA_HEADERS) ;

# --- the runtime: one source, three majors ---

SIM_SONAME_11 := libcudart.so.11.0
SIM_SONAME_12 := libcudart.so.12
SIM_SONAME_13 := libcudart.so.13
SIM_RUNTIME_SOURCES := $(wildcard tests/sim/runtime/*.c)
SIM_RUNTIME_HEADERS := $(wildcard tests/sim/runtime/*.h tests/sim/runtime/*.def tests/sim/compat/crt/*.h)
SIM_RUNTIMES := $(foreach m,11 12 13,$(SIM)/rt$(m)/$(SIM_SONAME_$(m)))

sim-runtimes: $(SIM_RUNTIMES)

# $(call SIM_RUNTIME,MAJOR): sources to objects, names to stubs, all to one library whose version node is its SONAME.
define SIM_RUNTIME
$(SIM)/rt$(1)/gen/stubs.c: tests/sim/gen/runtime_names.py $(CUDA_HEADERS)
	@python3 tests/sim/gen/runtime_names.py build/headers/cu$(1)/lib/$(SIM_SONAME_$(1)) \
	    build/headers/cu$(1)/include/driver_types.h $(SIM_SONAME_$(1)) $$(@D)

$(SIM)/rt$(1)/obj/%.o: tests/sim/runtime/%.c $(SIM_RUNTIME_HEADERS) $(SIM)/rt$(1)/gen/stubs.c
	@mkdir -p $$(@D)
	@echo "  CC   CUDA $(1): $$<"
	@$(SIM_CC) $(SIM_CFLAGS) -I$(SIM)/rt$(1)/gen -isystem build/headers/driver \
	    -isystem build/headers/cu$(1)/include -isystem tests/sim/compat -c $$< -o $$@

$(SIM)/rt$(1)/obj/stubs.o: $(SIM)/rt$(1)/gen/stubs.c
	@mkdir -p $$(@D)
	@$(SIM_CC) -O1 -fPIC -fno-builtin -c $$< -o $$@

$(SIM)/rt$(1)/$(SIM_SONAME_$(1)): $(SIM)/rt$(1)/obj/stubs.o \
    $(patsubst tests/sim/runtime/%.c,$(SIM)/rt$(1)/obj/%.o,$(SIM_RUNTIME_SOURCES))
	@echo "  LINK $$@"
	@$(SIM_CC) -shared -o $$@ -Wl,-soname,$(SIM_SONAME_$(1)) -Wl,-Bsymbolic \
	    -Wl,--version-script=$(SIM)/rt$(1)/gen/runtime.map $$^ -ldl -lpthread
endef
$(foreach m,11 12 13,$(eval $(call SIM_RUNTIME,$(m))))

# --- NVML ---

$(SIM)/nvml/libnvidia-ml.so.1: tests/sim/nvml/nvml.c tests/sim/nvml/sensors.c tests/sim/nvml/nvml.h $(foreach f,config card_file,$(addprefix tests/sim/driver/$f,.c .h))
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(SIM_CC) $(SIM_CFLAGS) -fvisibility=hidden -shared -o $@ -Wl,-soname,libnvidia-ml.so.1 \
	    $(filter %.c,$^) -ldl -lpthread

# --- stand-ins for the other vendor libraries of a wheel ---

SIM_PYTHON = $(or $(PYTHON),$(wildcard build/venv/bin/python))
SIM_MAKE_VENDOR = CC="$(SIM_CC)" python3 tests/sim/gen/vendor_stubs.py --interpreter \
    $(SIM_PYTHON) $(SIM)/vendor --runtimes $(SIM)

sim-vendor: sim-runtimes
	@test -n "$(SIM_PYTHON)" || { \
	    echo "sim-vendor: no build/venv (scripts/setup-python makes it) and no PYTHON=..." >&2; \
	    exit 1; }
	@$(SIM_MAKE_VENDOR)

# Without an environment with PyTorch the device serves C programs; nothing to make then.
sim-vendor-if-torch: sim-runtimes
	@if [ -n "$(SIM_PYTHON)" ] && $(SIM_PYTHON) tests/sim/gen/find_torch.py >/dev/null; then \
	    $(SIM_MAKE_VENDOR); fi

.PHONY: simgpu sim sim-runtimes sim-vendor sim-vendor-if-torch

# --- tests ---

SIM_TESTS := $(foreach m,11 12 13,$(SIM)/test_runtime_$(m) $(SIM)/test_runtime_work_$(m))

# $(call SIM_TEST,MAJOR): linked as a program of that major is; the loader finds the simulated driver
# by its search path.
define SIM_TEST
$(SIM)/%_$(1): tests/sim/%.c tests/sim/test_runtime.h $(SIM)/rt$(1)/$(SIM_SONAME_$(1))
	@echo "  LINK $$@"
	@$(SIM_CC) $(SIM_CFLAGS) -isystem build/headers/cu$(1)/include -isystem tests/sim/compat \
	    -o $$@ $$< $(SIM)/rt$(1)/$(SIM_SONAME_$(1)) -Wl,-rpath,'$$$$ORIGIN/rt$(1)' \
	    -lcmocka -ldl -lpthread
endef
$(foreach m,11 12 13,$(eval $(call SIM_TEST,$(m))))

sim-check: sim $(SIM_TESTS)
	@for test in $(SIM_TESTS); do echo "== $$test"; $(AS_NEW) LD_LIBRARY_PATH=$(SIM)/driver $$test || exit 1; done
	$(BATS) tests/sim/simgpu.bats

.PHONY: sim-check
