# pages.mk: the tests of the page engine (mode compact) on the simulated device.
#   pages-check    on PyTorch's own allocator, and the engine alone under many threads
#   pages-deep     the same on two releases, with more random operations and seeds, and under the sanitizers
#   pages-mutants  sees that they can fail
#   pages-python   on a whole PyTorch

build/pages/libnag.so: tests/pages/nag.c include/vramgc.h
	@mkdir -p $(@D)
	@$(CC) -D_GNU_SOURCE -std=c11 -O1 -fPIC -Wall -Wextra -Werror -Iinclude -shared -o $@ $< -pthread

# Who calls the engine alone, on a driver of the test's own.
PAGES_CALLERS := $(addprefix tests/pages/,threads.c alone.c spare.c fake_driver.c)
PAGES_CALLER_OBJECTS := $(PAGES_CALLERS:tests/%.c=build/%.o)
PAGES_HEADERS := $(wildcard src/*/*.h src/*.def src/vm/*.def tests/pages/*.h)
build/pages/%.o: tests/pages/%.c $(PAGES_HEADERS) tests/pages/pages.mk | $(CUDA_HEADERS)
	@mkdir -p $(@D)
	@$(CC) $(CPPFLAGS) $(CUDA_CPPFLAGS) $(CFLAGS) -c $< -o $@

# A script that builds the library with one line of src changed, and prints where it lies.
build/pages/mutant: tests/pages/mutant.sh $(BUILD)/libvramgc.so $(PAGES_CALLER_OBJECTS) tests/pages/pages.mk
	@mkdir -p $(@D)
	@printf '#!/usr/bin/env bash\nCOMPILE="%s" OBJECTS="%s" CALLERS="%s" LINK="%s" exec bash tests/pages/mutant.sh "$$@"\n' \
	    '$(CC) $(CPPFLAGS_ALL) $(CUDA_CPPFLAGS) $(CFLAGS_ALL) -ftls-model=initial-exec' '$(LIB_OBJECTS)' '$(PAGES_CALLER_OBJECTS)' \
	    '-Wl,-soname,libvramgc.so -Wl,--version-script=$(BUILD)/exports.map -Wl,-z,defs $(LDFLAGS)' > $@
	@chmod +x $@

# PyTorch's allocator in little, as far as the driver's calls go, and who calls it.
VMM_CALLS := build/pages/vmm_calls
VMM_CFLAGS := -std=c11 -D_GNU_SOURCE -O1 -g -fPIC $(WARNINGS) $(CUDA_CPPFLAGS) -Iinclude -Isrc -Itests/hook
$(VMM_CALLS)/libc10.so: VMM_CFLAGS += -DC10
$(VMM_CALLS)/libc10_cuda.so: VMM_CFLAGS += -DALLOCATOR
$(VMM_CALLS)/libc10.so $(VMM_CALLS)/libc10_cuda.so: tests/pages/vmm_calls.c tests/pages/vmm_calls.h tests/pages/pages.mk | $(CUDA_HEADERS)
	@mkdir -p $(@D)
	@$(CC) $(VMM_CFLAGS) -shared -Wl,-soname,$(@F) -o $@ $<
$(VMM_CALLS)/vmm_calls: tests/pages/vmm_calls.c $(VMM_CALLS)/libc10.so $(VMM_CALLS)/libc10_cuda.so $(HOOK)/check.o $(HOOK_DRIVER)
	@$(CC) $(VMM_CFLAGS) -Wl,--no-as-needed -o $@ $^ -Wl,-rpath,'$$ORIGIN' -lpthread

# The engine alone, under the sanitizers.
PAGES_THREADS := $(PAGES_CALLERS) $(wildcard src/vm/*.c) src/base/lock.c
PAGES_POOL_THREADS := tests/pages/pool_threads.c $(addprefix src/,vm/pool.c vm/arena.c vm/tree.c base/lock.c)
PAGES_SANITIZE_tsan := -fsanitize=thread
PAGES_SANITIZE_asan := -fsanitize=address,undefined -fno-sanitize-recover=all
define PAGES_RULE
build/pages/threads-$(1): $(PAGES_THREADS) $(PAGES_HEADERS) tests/pages/pages.mk | $(CUDA_HEADERS)
	@mkdir -p $$(@D)
	@$(CC) $(CPPFLAGS) $(CUDA_CPPFLAGS) $(CFLAGS) -O1 -g $(PAGES_SANITIZE_$(1)) $(PAGES_THREADS) -o $$@ -pthread
build/pages/pool_threads-$(1): $(PAGES_POOL_THREADS) $(PAGES_HEADERS) tests/pages/pages.mk | $(CUDA_HEADERS)
	@mkdir -p $$(@D)
	@$(CC) $(CPPFLAGS) $(CUDA_CPPFLAGS) $(CFLAGS) -O1 -g $(PAGES_SANITIZE_$(1)) $(PAGES_POOL_THREADS) -o $$@ -pthread
endef
$(foreach s,tsan asan plain,$(eval $(call PAGES_RULE,$(s))))

.PHONY: pages-tools pages-check pages-deep pages-mutants pages-python soak
pages-tools: build/pages/threads-plain build/pages/pool_threads-plain build/pages/libnag.so build/pages/mutant $(VMM_CALLS)/vmm_calls $(HOOK)/libno_thread.so build/reclaim/show build/libvramgc.so sim c10drive

check-build: pages-tools

pages-check: pages-tools
	$(BATS_QUICK) tests/pages

PAGES_SANITIZED := $(foreach s,tsan asan,build/pages/threads-$(s) build/pages/pool_threads-$(s))
pages-deep: pages-tools $(PAGES_SANITIZED)
	C10_VERSIONS="2.9.1 2.15.0" BUILDS="tsan asan" SEEDS=2 $(BATS) --filter-tags '!python,!mutants' tests/pages

pages-mutants: pages-tools
	$(BATS) --filter-tags mutants tests/pages

pages-python: pages-tools
	$(BATS) --filter-tags python tests/pages

# All of the hundred random runs, of which pages-deep does a part.
soak: pages-tools
	RUNS=25 $(BATS) tests/pages/hundred.bats
