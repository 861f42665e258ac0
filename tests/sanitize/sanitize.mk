# sanitize.mk: the library as a whole, instrumented, in front of PyTorch's own allocator.
#   sanitize-check   on the newest release (sanitize-night: on an older one, too), with the address and undefined-behaviour sanitizers and with the thread sanitizer

SANITIZE := build/sanitize
# gcc copies little in place, and then no sanitizer sees it. DEBUG: base/debug.h looks, too.
SANITIZE_asan := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-builtin -DDEBUG
SANITIZE_tsan := -fsanitize=thread -fno-builtin -include tests/hook/unlucky.h
SANITIZE_NAMES := asan tsan
SANITIZE_CFLAGS := -std=c11 -D_GNU_SOURCE -g -fPIC $(WARNINGS) -Iinclude

# Make knows what it is made of, in the same way as for build/libvramgc.so.
.PHONY: sanitize
sanitize: $(SANITIZE)/asan/names $(SANITIZE)/tsan/names $(SANITIZE)/libhost.so $(SANITIZE_NAMES:%=$(SANITIZE)/%/libfirst.so) $(foreach s,$(SANITIZE_NAMES),$(SANITIZE)/$(s)/lib$(s).so)
	@$(foreach s,$(SANITIZE_NAMES),$(MAKE) --no-print-directory BUILD=$(SANITIZE)/$(s) OPTIMISE="-O1 -g" \
	    CFLAGS="$(SANITIZE_$(s))" $(SANITIZE)/$(s)/libvramgc.so &&) true

$(SANITIZE)/libhost.so: tests/sanitize/host.c include/vramgc.h tests/sanitize/sanitize.mk
	@mkdir -p $(@D)
	@$(CC) $(SANITIZE_CFLAGS) -O1 -shared -o $@ $< -pthread

# Jumps in the place of calls are -O2's. Linked with the runtime, it is ready after it.
$(SANITIZE)/%/libfirst.so: tests/sanitize/first.c tests/sanitize/sanitize.mk
	@mkdir -p $(@D)
	@$(CC) $(SANITIZE_CFLAGS) -O2 -foptimize-sibling-calls -c -o $(@D)/first.o $<
	@$(CC) -shared -Wl,--no-as-needed $(filter -fsanitize%,$(SANITIZE_$*)) -o $@ $(@D)/first.o

SANITIZE_NAMES_C := tests/sanitize/names.c src/python/names.c src/base/lock.c src/base/text.c src/base/parse.c
$(SANITIZE)/%/names: $(SANITIZE_NAMES_C) $(wildcard src/*/*.h include/*.h) tests/sanitize/sanitize.mk
	@mkdir -p $(@D)
	@$(CC) $(CPPFLAGS) $(CUDA_CPPFLAGS) $(SANITIZE_CFLAGS) -O1 $(SANITIZE_$*) -o $@ $(SANITIZE_NAMES_C) -pthread

$(SANITIZE)/mutants/names: $(SANITIZE_NAMES_C) $(MUTANTS)/stamp tests/sanitize/sanitize.mk
	@mkdir -p $(@D)
	@$(CC) $(MUTANTS_CPPFLAGS) $(CPPFLAGS) $(CUDA_CPPFLAGS) $(SANITIZE_CFLAGS) -O1 -o $@ $(SANITIZE_NAMES_C:src/%=$(MUTANTS)/%) -pthread

# What has to be preloaded before all others, by a name that it knows.
$(foreach s,$(SANITIZE_NAMES),$(SANITIZE)/$(s)/lib$(s).so): tests/sanitize/sanitize.mk
	@mkdir -p $(@D)
	@ln -sfn "$$(readlink -f "$$($(CC) -print-file-name=$(@F))")" $@

.PHONY: sanitize-check sanitize-night
sanitize-check: sanitize c10drive sim build/govern/show
	$(BATS) tests/sanitize

sanitize-night: sanitize c10drive-deep sim build/govern/show
	C10_VERSIONS="$(C10_DEEP_VERSIONS)" $(BATS) tests/sanitize
