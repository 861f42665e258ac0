# govern.mk: the tests of giving memory back.
#   govern-check    on PyTorch's own allocator, without Python
#   govern-deep     the same on an older release
#   govern-mutants  sees that they can fail
#   govern-python   on a whole PyTorch

GOVERN_PYTHON ?= build/venv/bin/python

build/govern/show: tests/govern/show.c include/vramgc_format.h src/stats.def
	@mkdir -p $(@D)
	$(CC) -std=c11 -O1 -g -Wall -Wextra -Wconversion -Werror -Iinclude -Isrc $< -o $@

build/govern/lib%.so: tests/govern/%.c
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE -O1 -fPIC -Wall -Wextra -Werror -shared $< -o $@ -ldl

# In front of others under the name of what it stands for.
build/govern/aimdo.so: tests/govern/aimdo.c | $(CUDA_HEADERS)
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE -O1 -fPIC -Wall -Wextra -Werror $(CUDA_CPPFLAGS) -shared $< -o $@ -ldl

# A script that builds the library without some of the checks in soft_oom.c and prints where it lies.
build/govern/mutant: tests/govern/mutant.sh $(BUILD)/libvramgc.so tests/govern/govern.mk
	@mkdir -p $(@D)
	@printf '#!/usr/bin/env bash\nCOMPILE="%s" OBJECTS="%s" LINK="%s" exec bash tests/govern/mutant.sh "$$@"\n' \
	    '$(CC) $(CPPFLAGS_ALL) $(CUDA_CPPFLAGS) $(CFLAGS_ALL) -ftls-model=initial-exec' \
	    '$(filter-out %/soft_oom.c.o,$(LIB_OBJECTS))' \
	    '-Wl,-soname,libvramgc.so -Wl,--version-script=$(BUILD)/exports.map -Wl,-z,defs $(LDFLAGS)' > $@
	@chmod +x $@

.PHONY: govern-tools govern-check govern-deep govern-mutants govern-python
govern-tools: build/govern/show build/govern/libunreported_blocks.so build/govern/liblate_report.so build/govern/aimdo.so build/govern/mutant build/libvramgc.so sim c10drive

check-build: govern-tools

govern-check: govern-tools
	$(BATS_QUICK) tests/govern

# Some tests name the newest release.
govern-deep: govern-tools c10drive-deep
	C10_VERSIONS=2.9.1 $(BATS_QUICK) tests/govern

govern-mutants: govern-tools c10drive-deep
	C10_VERSIONS="$(C10_DEEP_VERSIONS)" $(BATS) tests/govern/mutants.bats

govern-python: govern-tools
	PYTHONPYCACHEPREFIX=build/pycache $(GOVERN_PYTHON) -m unittest -v tests/govern/test_python.py
