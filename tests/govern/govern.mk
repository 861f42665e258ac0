# govern.mk: the tests of giving memory back.
#   govern-check    on PyTorch's own allocator, without Python
#   govern-deep     the same on an older release, and what is not about exact figures on a device that lags in every way;
#                   what takes a minute
#   govern-python   on a whole PyTorch

GOVERN_PYTHON ?= build/venv/bin/python

build/govern/show: tests/govern/show.c include/vramgc_format.h src/stats.def src/causes.def
	@mkdir -p $(@D)
	$(CC) -std=c11 -O1 -g -Wall -Wextra -Wconversion -Werror -Iinclude -Isrc $< -o $@

build/govern/lib%.so: tests/govern/%.c
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE -O1 -fPIC -Wall -Wextra -Werror -Iinclude -shared $< -o $@ -ldl

FRAMES_C := tests/govern/frames.c $(addprefix src/python/,frames.c python_api.c) src/base/lock.c
build/govern/libframes.so: $(FRAMES_C) $(wildcard src/python/*.h) | $(CUDA_HEADERS)
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE -O1 -g -fPIC -Wall -Wextra -Werror $(CUDA_CPPFLAGS) -Iinclude -Isrc -shared $(FRAMES_C) -o $@ -ldl

HOST_STRESS := tests/govern/host_stress.c src/host/allocator.c src/cuda/objects.c src/base/clock.c src/base/lock.c src/base/text.c
build/govern/host_stress: $(HOST_STRESS) src/host/allocator.h | $(CUDA_HEADERS)
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror $(CUDA_CPPFLAGS) -Iinclude -Isrc $(HOST_STRESS) -o $@ -ldl -pthread

# In front of others under the name of what it stands for.
build/govern/aimdo.so: tests/govern/aimdo.c | $(CUDA_HEADERS)
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE -O1 -fPIC -Wall -Wextra -Werror $(CUDA_CPPFLAGS) -shared $< -o $@ -ldl

build/govern/park_work: tests/govern/park_work.c build/sim/rt13/libcudart.so.13 build/sim/driver/libcuda.so.1 build/sim/nvml/libnvidia-ml.so.1 | $(CUDA_HEADERS)
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror $(CUDA_CPPFLAGS) -Iinclude -Isrc $^ -o $@ -pthread

.PHONY: govern-tools govern-check govern-deep govern-python
govern-tools: build/govern/show build/govern/park_work build/govern/host_stress build/govern/libunreported_blocks.so build/govern/liblate_report.so build/govern/libfake_python.so build/govern/aimdo.so build/govern/libframes.so build/libvramgc.so sim c10drive proven

check-build: govern-tools

govern-check: govern-tools
	$(BATS_QUICK) tests/govern

GOVERN_HARD := SIMGPU_LATENCY=card SIMGPU_SLOW=10 SIMGPU_KERNEL_US=300 SIMGPU_CONTEXT_LOCK=1 SIMGPU_FREE_LAG_MS=100

# Some tests name the newest release.
govern-deep: govern-tools c10drive-deep
	C10_VERSIONS=$(OLDER_RELEASE) $(BATS_QUICK) tests/govern
	$(AS_NEW) $(GOVERN_HARD) $(BATS_QUICK) $(patsubst %,tests/govern/%.bats,causes pools refuse_not soft_oom)
	$(BATS) --filter-tags deep tests/govern

govern-python: govern-tools
	$(AS_NEW) $(GOVERN_PYTHON) -m unittest -v tests/govern/test_python.py
