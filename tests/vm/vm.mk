# vm.mk: the tests of the page engine (mode compact) on the simulated device.
#   vm-check    on PyTorch's own allocator, and the engine alone under many threads
#   vm-deep     the same on an older release; random operations, the engine under the sanitizers, calls that fail in turn
#   vm-night    all of it on both releases
#   vm-python   on a whole PyTorch

build/vm/libconstant_reclaim.so: tests/vm/constant_reclaim.c include/vramgc.h
	@mkdir -p $(@D)
	@$(CC) -D_GNU_SOURCE -std=c11 -O1 -fPIC -Wall -Wextra -Werror -Iinclude -shared -o $@ $< -pthread

build/vm/libgreen_streams.so: tests/vm/green_streams.c | $(CUDA_HEADERS)
	@mkdir -p $(@D)
	@$(CC) $(CUDA_CPPFLAGS) -D_GNU_SOURCE -std=c11 -O1 -fPIC -Wall -Wextra -Werror -shared -o $@ $<

build/vm/liblibfail.so: tests/vm/libfail.c
	@mkdir -p $(@D)
	@$(CC) -D_GNU_SOURCE -std=c11 -O1 -fPIC -Wall -Wextra -Werror -shared -o $@ $< -pthread

# Who calls the engine alone, on a driver of the test's own.
VM_CALLERS := $(addprefix tests/vm/,threads.c alone.c extents.c decay.c fences.c sleeps.c fake_driver.c)
VM_HEADERS := $(wildcard src/*/*.h src/*.def src/vm/*.def tests/vm/*.h)

# PyTorch's allocator in little, as far as the driver's calls go, and who calls it.
VMM_CALLS := build/vm/vmm_calls
VMM_CFLAGS := -std=c11 -D_GNU_SOURCE -O1 -g -fPIC $(WARNINGS) $(CUDA_CPPFLAGS) -Iinclude -Isrc -Itests/hook
$(VMM_CALLS)/libc10.so: VMM_CFLAGS += -DC10
$(VMM_CALLS)/libc10_cuda.so: VMM_CFLAGS += -DALLOCATOR
$(VMM_CALLS)/libc10.so $(VMM_CALLS)/libc10_cuda.so: tests/vm/vmm_calls.c tests/vm/vmm_calls.h tests/vm/vm.mk | $(CUDA_HEADERS)
	@mkdir -p $(@D)
	@$(CC) $(VMM_CFLAGS) -shared -Wl,-soname,$(@F) -o $@ $<
$(VMM_CALLS)/vmm_calls: tests/vm/vmm_calls.c $(VMM_CALLS)/libc10.so $(VMM_CALLS)/libc10_cuda.so $(HOOK)/check.o $(HOOK_DRIVER)
	@$(CC) $(VMM_CFLAGS) -Wl,--no-as-needed -o $@ $^ -Wl,-rpath,'$$ORIGIN' -lpthread

$(VMM_CALLS)/steps_calls: tests/vm/steps_calls.c $(VMM_CALLS)/libc10.so $(VMM_CALLS)/libc10_cuda.so $(HOOK)/check.o $(HOOK_DRIVER)
	@$(CC) $(VMM_CFLAGS) -Wl,--no-as-needed -o $@ $^ -Wl,-rpath,'$$ORIGIN' -lpthread

# The engine alone, under the sanitizers, and with the mutants (tests/mutants/mutants.mk).
VM_THREADS := $(VM_CALLERS) $(wildcard src/vm/*.c src/card/reading.c) src/base/clock.c src/base/hashmap.c src/base/lock.c src/base/parse.c src/base/process_stat.c src/base/text.c
VM_POOL_THREADS := tests/vm/pool_threads.c $(addprefix src/,vm/pool.c vm/arena.c vm/tree.c base/lock.c)
VM_SANITIZE_tsan := -fsanitize=thread
# DEBUG: base/debug.h looks, too.
VM_SANITIZE_asan := -fsanitize=address,undefined -fno-sanitize-recover=all -DDEBUG
define VM_RULE
build/vm/threads-$(1): $(VM_THREADS) $(VM_HEADERS) tests/vm/vm.mk $(2) | $(CUDA_HEADERS)
	@mkdir -p $$(@D)
	@$(CC) $(3) $(CPPFLAGS) $(CUDA_CPPFLAGS) $(CFLAGS) -O1 -g $(VM_SANITIZE_$(1)) $(VM_THREADS:src/%=$(4)/%) -o $$@ -pthread
build/vm/pool_threads-$(1): $(VM_POOL_THREADS) $(VM_HEADERS) tests/vm/vm.mk $(2) | $(CUDA_HEADERS)
	@mkdir -p $$(@D)
	@$(CC) $(3) $(CPPFLAGS) $(CUDA_CPPFLAGS) $(CFLAGS) -O1 -g $(VM_SANITIZE_$(1)) $(VM_POOL_THREADS:src/%=$(4)/%) -o $$@ -pthread
endef
$(foreach s,tsan asan plain,$(eval $(call VM_RULE,$(s),,,src)))
$(eval $(call VM_RULE,mutants,$(MUTANTS)/stamp,$(MUTANTS_CPPFLAGS),$(MUTANTS)))

.PHONY: vm-tools vm-check vm-deep vm-night vm-python soak
vm-tools: build/vm/threads-plain build/vm/pool_threads-plain build/vm/libconstant_reclaim.so build/vm/libgreen_streams.so build/vm/liblibfail.so $(VMM_CALLS)/vmm_calls $(VMM_CALLS)/steps_calls $(HOOK)/libno_thread.so build/govern/show build/libvramgc.so $(BUILD)/vramgc proven sim c10drive

check-build: vm-tools

vm-check: vm-tools
	$(BATS_QUICK) tests/vm

VM_SANITIZED := $(foreach s,tsan asan,build/vm/threads-$(s) build/vm/pool_threads-$(s))
vm-deep: vm-tools c10drive-deep $(VM_SANITIZED)
	BUILDS="tsan asan" SEEDS=2 $(BATS) --filter-tags 'deep,!python' --filter-tags 'random,!python' tests/vm
	BUILDS="tsan asan" $(BATS) --filter-tags '!random' tests/vm/threads.bats
	C10_VERSIONS=$(OLDER_RELEASE) $(BATS_QUICK) tests/vm
	C10_VERSIONS=$(OLDER_RELEASE) $(BATS) tests/vm/sweep.bats

vm-night: vm-tools c10drive-deep $(VM_SANITIZED)
	C10_VERSIONS="$(C10_DEEP_VERSIONS)" BUILDS="tsan asan" SEEDS=2 $(BATS) --filter-tags '!python' tests/vm

vm-python: vm-tools
	$(BATS) --filter-tags python tests/vm

# All hundred random runs of random_settings.bats, of which vm-deep does a dozen.
soak: vm-tools c10drive-deep
	C10_VERSIONS="$(C10_DEEP_VERSIONS)" RUNS=25 $(BATS) tests/vm/random_settings.bats
