# pages.mk: the tests of the page engine (mode compact) on the simulated device: pages-check.

build/pages/libnag.so: tests/pages/nag.c include/vramgc.h
	@mkdir -p $(@D)
	@$(CC) -D_GNU_SOURCE -std=c11 -O1 -fPIC -Wall -Wextra -Werror -Iinclude -shared -o $@ $< -pthread

# A script that builds the library with one line of src/pages changed, and prints where it lies.
build/pages/mutant: tests/pages/mutant.sh $(BUILD)/libvramgc.so tests/pages/pages.mk
	@mkdir -p $(@D)
	@printf '#!/usr/bin/env bash\nCOMPILE="%s" OBJECTS="%s" LINK="%s" exec bash tests/pages/mutant.sh "$$@"\n' \
	    '$(CC) $(CPPFLAGS_ALL) $(CUDA_CPPFLAGS) $(CFLAGS_ALL) -ftls-model=initial-exec' '$(LIB_OBJECTS)' \
	    '-Wl,-soname,libvramgc.so -Wl,--version-script=$(BUILD)/exports.map -Wl,-z,defs $(LDFLAGS)' > $@
	@chmod +x $@

.PHONY: pages-tools pages-check
pages-tools: build/pages/libnag.so build/pages/mutant build/reclaim/show build/libvramgc.so sim c10drive

pages-check: pages-tools
	bats tests/pages
