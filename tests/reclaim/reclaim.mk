# reclaim.mk: the tests of giving memory back.
#   reclaim-check    on PyTorch's own allocator, without Python
#   reclaim-mutants  sees that they can fail
#   reclaim-python   on a whole PyTorch

RECLAIM_PYTHON ?= build/venv/bin/python

build/reclaim/show: tests/reclaim/show.c include/vramgc_format.h src/stats.def
	@mkdir -p $(@D)
	$(CC) -std=c11 -O1 -g -Wall -Wextra -Wconversion -Werror -Iinclude -Isrc $< -o $@

build/reclaim/lib%.so: tests/reclaim/%.c
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE -O1 -fPIC -Wall -Wextra -Werror -shared $< -o $@ -ldl

# In front of others under the name of what it stands for.
build/reclaim/aimdo.so: tests/reclaim/aimdo.c | $(CUDA_HEADERS)
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE -O1 -fPIC -Wall -Wextra -Werror $(CUDA_CPPFLAGS) -shared $< -o $@ -ldl

# A script that builds the library without some of the checks in soft_oom.c and prints where it lies.
build/reclaim/mutant: tests/reclaim/mutant.sh $(BUILD)/libvramgc.so tests/reclaim/reclaim.mk
	@mkdir -p $(@D)
	@printf '#!/usr/bin/env bash\nCOMPILE="%s" OBJECTS="%s" LINK="%s" exec bash tests/reclaim/mutant.sh "$$@"\n' \
	    '$(CC) $(CPPFLAGS_ALL) $(CUDA_CPPFLAGS) $(CFLAGS_ALL) -ftls-model=initial-exec' \
	    '$(filter-out %/soft_oom.c.o,$(LIB_OBJECTS))' \
	    '-Wl,-soname,libvramgc.so -Wl,--version-script=$(BUILD)/exports.map -Wl,-z,defs $(LDFLAGS)' > $@
	@chmod +x $@

.PHONY: reclaim-tools reclaim-check reclaim-mutants reclaim-python
reclaim-tools: build/reclaim/show build/reclaim/libmute.so build/reclaim/libslow.so build/reclaim/aimdo.so build/reclaim/mutant build/libvramgc.so sim c10drive

check-build: reclaim-tools

reclaim-check: reclaim-tools
	$(BATS_QUICK) tests/reclaim

reclaim-mutants: reclaim-tools
	C10_VERSIONS="2.9.1 2.15.0" $(BATS) tests/reclaim/mutants.bats

reclaim-python: reclaim-tools
	PYTHONPYCACHEPREFIX=build/pycache $(RECLAIM_PYTHON) -m unittest -v tests/reclaim/test_python.py
