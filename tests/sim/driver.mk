# The simulated CUDA driver, build/sim/driver/libcuda.so.1, and its tests. Included by the top
# Makefile; needs CUDA_INCLUDE (a folder with cuda.h and cudaTypedefs.h) and nothing else of CUDA.

CUDA_INCLUDE ?= build/headers/cu13/include

SIM_DRIVER_DIR     := tests/sim/driver
SIM_DRIVER_BUILD   := build/sim/driver$(SIM_VARIANT)
SIM_DRIVER         := $(SIM_DRIVER_BUILD)/libcuda.so.1
SIM_DRIVER_SOURCES := $(sort $(wildcard $(SIM_DRIVER_DIR)/*.c))
SIM_DRIVER_HEADERS := $(wildcard $(SIM_DRIVER_DIR)/*.h)
SIM_DRIVER_NAMES   := $(SIM_DRIVER_BUILD)/gen/names.txt
SIM_DRIVER_GENERATED := stubs wrappers table
SIM_DRIVER_OBJECTS := \
    $(SIM_DRIVER_SOURCES:$(SIM_DRIVER_DIR)/%.c=$(SIM_DRIVER_BUILD)/%.o) \
    $(SIM_DRIVER_GENERATED:%=$(SIM_DRIVER_BUILD)/gen/%.o)
# cuda.h hides deprecated declarations behind no macro, and generated files list what is public. Interposers such as comfy-aimdo
# rewrite the first bytes of the driver's functions: a card's bear it.
SIM_DRIVER_CFLAGS := -ffile-prefix-map=$(CURDIR)=. -std=gnu11 -D_GNU_SOURCE -O2 -g -fPIC -fpatchable-function-entry=16 -Wall -Wextra $(WERROR) \
    -isystem $(CUDA_INCLUDE) -I$(SIM_DRIVER_DIR)

$(SIM_DRIVER_NAMES): tests/sim/gen/driver_names.py $(CUDA_INCLUDE)/cuda.h
	@mkdir -p $(@D)
	@python3 $< --include $(CUDA_INCLUDE) --out $(@D) --cc "$(CC)"

$(SIM_DRIVER_GENERATED:%=$(SIM_DRIVER_BUILD)/gen/%.c): $(SIM_DRIVER_NAMES) ;

$(SIM_DRIVER_BUILD)/gen/%.o: $(SIM_DRIVER_BUILD)/gen/%.c $(SIM_DRIVER_HEADERS) | $(CUDA_INCLUDE)/cuda.h
	@echo "  CC $@"
	@$(CC) $(SIM_DRIVER_CFLAGS) $(SIM_SANITIZE) -c -o $@ $<

$(SIM_DRIVER_BUILD)/%.o: $(SIM_DRIVER_DIR)/%.c $(SIM_DRIVER_HEADERS) | $(CUDA_INCLUDE)/cuda.h
	@mkdir -p $(@D)
	@echo "  CC $@"
	@$(CC) $(SIM_DRIVER_CFLAGS) $(SIM_SANITIZE) -c -o $@ $<

$(SIM_DRIVER): $(SIM_DRIVER_OBJECTS) $(SIM_DRIVER_DIR)/driver.map
	@echo "  LINK $@"
	@$(CC) -shared $(SIM_SANITIZE) -o $@ -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic -Wl,-z,defs \
	    -Wl,--version-script=$(SIM_DRIVER_DIR)/driver.map $(SIM_DRIVER_OBJECTS) -lpthread

.PHONY: sim-driver
sim-driver: $(SIM_DRIVER)

# ---- tests ----
SIM_TEST_BUILD   := build/sim/tests$(SIM_VARIANT)
SIM_DRIVER_TESTS := $(patsubst tests/sim/%.c,$(SIM_TEST_BUILD)/%,$(wildcard tests/sim/test_driver_*.c))

$(SIM_TEST_BUILD)/test_driver_%: tests/sim/test_driver_%.c tests/sim/test_driver.h tests/sim/test_driver_child.h $(SIM_DRIVER)
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CC) -std=gnu11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -isystem $(CUDA_INCLUDE) -Itests/sim \
	    $(SIM_SANITIZE) -o $@ $< -L$(SIM_DRIVER_BUILD) -l:libcuda.so.1 -lcmocka -lpthread -ldl \
	    -Wl,-rpath,'$$ORIGIN/../driver$(SIM_VARIANT)'

.PHONY: check-sim-driver
check-sim-driver: $(SIM_DRIVER_TESTS)
	@set -e; for test in $(SIM_DRIVER_TESTS); do echo "$$test"; $(AS_NEW) timeout 900 $$test $(SIM_DRIVER_NAMES); done

# The address sanitizer runs all tests, the thread sanitizer those with threads. Both builds are
# separate; SIM_VARIANT names them.
SIM_AGAIN := $(MAKE) -f $(firstword $(MAKEFILE_LIST))

.PHONY: check-sim-sanitize check-sim-stress
check-sim-sanitize:
	ASAN_OPTIONS=detect_leaks=0:handle_segv=0:allocator_may_return_null=1 \
	    $(SIM_AGAIN) SIM_VARIANT=-asan SIM_SANITIZE=-fsanitize=address,undefined check-sim-driver
	TSAN_OPTIONS=halt_on_error=1 \
	    $(SIM_AGAIN) SIM_VARIANT=-tsan SIM_SANITIZE=-fsanitize=thread check-sim-stress

check-sim-stress: $(filter %_stress %_stream %_threads,$(SIM_DRIVER_TESTS))
	@set -e; for test in $^; do echo "$$test"; $(AS_NEW) timeout 300 $$test; done

check-build: $(SIM_DRIVER_TESTS)
