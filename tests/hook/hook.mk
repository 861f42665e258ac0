# hook.mk: tests of the hooks, the look-ups and the record behind them.
#   hook         builds them
#   hook-check   runs them, on the simulated device and on a fake one
#   hook-tsan, hook-asan   the fake one again, under the sanitizers

HOOK := build/hook
HOOK_CFLAGS := -std=c11 -D_GNU_SOURCE -O1 -g -fPIC $(WARNINGS) $(CUDA_CPPFLAGS) -Iinclude -Isrc -Itests/hook -MMD -MP
HOOK_FRAGMENTS := fragments_runtime fragments_driver
HOOK_RUNTIME_11 := build/sim/rt11/libcudart.so.11.0
HOOK_RUNTIME_12 := build/sim/rt12/libcudart.so.12
HOOK_RUNTIME_13 := build/sim/rt13/libcudart.so.13
HOOK_DRIVER := build/sim/driver/libcuda.so.1
HOOK_CLIENTS := $(foreach m,11 12 13 driver,$(HOOK)/linked-$(m) $(HOOK)/libclient-$(m).so)

$(HOOK)/%.o: tests/hook/%.c tests/hook/hook.mk | $(CUDA_HEADERS)
	@mkdir -p $(@D)
	@$(CC) $(HOOK_CFLAGS) -c $< -o $@

$(HOOK)/direct/%.o: tests/hook/%.c tests/hook/hook.mk | $(CUDA_HEADERS)
	@mkdir -p $(@D)
	@$(CC) $(HOOK_CFLAGS) -DDIRECT -c $< -o $@

# --- the fragments by every route ---

# Clients opened by it use its checks.
$(HOOK)/routes: $(addprefix $(HOOK)/,routes.o check.o $(HOOK_FRAGMENTS:=.o))
	@echo "  LINK $@"
	@$(CC) -rdynamic -o $@ $^

# $(call HOOK_CLIENT,NAME,FRAGMENTS,LIBRARY): a program linked with the library, and a shared object.
define HOOK_CLIENT
$(HOOK)/linked-$(1): tests/hook/linked.c $(HOOK)/check.o $(HOOK)/direct/fragments_$(2).o $(3)
	@echo "  LINK $$@"
	@$(CC) $(HOOK_CFLAGS) -DFRAGMENTS=$(2)_fragments -o $$@ $$(filter %.c %.o,$$^) $(3) -Wl,-rpath-link,build/sim/driver
$(HOOK)/libclient-$(1).so: $(HOOK)/direct/fragments_$(2).o $(3)
	@echo "  LINK $$@"
	@$(CC) -shared -o $$@ $$^
endef
$(foreach m,11 12 13,$(eval $(call HOOK_CLIENT,$(m),runtime,$(HOOK_RUNTIME_$(m)))))
$(eval $(call HOOK_CLIENT,driver,driver,$(HOOK_DRIVER)))

# --- wrappers change nothing: libraries that echo their arguments ---

$(HOOK)/echo/libcudart.so.13: HOOK_LIBRARY := CUDART
$(HOOK)/echo/libcuda.so.1: HOOK_LIBRARY := CUDA
HOOK_ECHO := $(HOOK)/echo/libcudart.so.13 $(HOOK)/echo/libcuda.so.1

$(HOOK_ECHO): tests/hook/echo.c tests/hook/echo.h src/hooks.def tests/hook/hook.mk | $(CUDA_HEADERS)
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CC) $(filter-out -MMD -MP,$(HOOK_CFLAGS)) -DLIBRARY_$(HOOK_LIBRARY) -shared -fvisibility=hidden \
	    -Wl,-soname,$(@F) -Wl,-Bsymbolic -o $@ $<

$(HOOK)/passthrough: $(HOOK)/passthrough.o $(HOOK)/check.o $(HOOK_ECHO)
	@echo "  LINK $@"
	@$(CC) -Wl,--no-as-needed -o $@ $(filter %.o,$^) $(HOOK_ECHO)

# --- look-ups, and other people's use of dlsym ---

$(HOOK)/lookup: $(HOOK)/lookup.o $(HOOK)/check.o
	@echo "  LINK $@"
	@$(CC) -rdynamic -o $@ $^

# $(call HOOK_THIRD,OPTIMISATION)
define HOOK_THIRD
$(HOOK)/libthird-$(1).so: tests/hook/third.c tests/hook/hook.mk
	@mkdir -p $$(@D)
	@$(CC) -$(1) -fPIC -Wall -Wextra -Werror -DNAME=third_$(1) -shared -o $$@ $$< -ldl
$(HOOK)/liblocal-$(1).so: tests/hook/third.c tests/hook/hook.mk
	@mkdir -p $$(@D)
	@$(CC) -$(1) -fPIC -Wall -Wextra -Werror -DNAME=local_$(1) -shared -o $$@ $$< -ldl
$(HOOK)/libinterposer-$(1).so: tests/hook/third.c tests/hook/hook.mk
	@mkdir -p $$(@D)
	@$(CC) -$(1) -fPIC -Wall -Wextra -Werror -DINTERPOSES -DNAME=interposer_$(1) -shared -o $$@ $$< -ldl
endef
$(foreach o,O0 O2,$(eval $(call HOOK_THIRD,$(o))))
HOOK_THIRDS := $(foreach o,O0 O2,$(HOOK)/libthird-$(o).so $(HOOK)/liblocal-$(o).so $(HOOK)/libinterposer-$(o).so)

$(HOOK)/next: $(HOOK)/next.o $(HOOK)/check.o $(HOOK_THIRDS)
	@echo "  LINK $@"
	@$(CC) -Wl,--no-as-needed -o $@ $(filter %.o,$^) -L$(HOOK) -lthird-O0 -lthird-O2 -Wl,-rpath,'$$ORIGIN'

$(HOOK)/chain $(HOOK)/two_devices $(HOOK)/use $(HOOK)/cancel: $(HOOK)/%: $(HOOK)/%.o $(HOOK)/check.o $(HOOK_RUNTIME_13)
	@echo "  LINK $@"
	@$(CC) -o $@ $^ -Wl,-rpath-link,build/sim/driver

$(HOOK)/own/libcuda.so.1: tests/hook/own_names.c tests/hook/hook.mk | $(CUDA_HEADERS)
	@mkdir -p $(@D)
	@$(CC) $(filter-out -MMD -MP,$(HOOK_CFLAGS)) -DDRIVER -shared -Wl,-soname,$(@F) -Wl,-Bsymbolic -o $@ $<

$(HOOK)/stub/libcuda.so.1 $(HOOK)/stub/libother.so: tests/hook/closed.c tests/hook/hook.mk | $(CUDA_HEADERS)
	@mkdir -p $(@D)
	@$(CC) $(filter-out -MMD -MP,$(HOOK_CFLAGS)) -DSTUB -shared -Wl,-soname,$(@F) -Wl,-Bsymbolic -o $@ $<

$(HOOK)/closed: $(HOOK)/closed.o $(HOOK)/check.o $(HOOK)/stub/libcuda.so.1 $(HOOK)/stub/libother.so
	@echo "  LINK $@"
	@$(CC) -rdynamic -o $@ $(filter %.o,$^)

# Every name of the driver: ENTRY(name).
$(HOOK)/every/entries.def: build/stubs.def src/hooks.def
	@mkdir -p $(@D)
	@sed 's/^STUB/ENTRY/' $< >$@
	@sed -nE 's/^(HOOK|PASS|ASK)\(CUDA, *[A-Za-z_]+ *, *([A-Za-z0-9_]+),.*/ENTRY(\2)/p' src/hooks.def >>$@

$(HOOK)/every/libcuda.so.1: tests/hook/entries.c $(HOOK)/every/entries.def
	@$(CC) $(filter-out -MMD -MP,$(HOOK_CFLAGS)) -I$(@D) -DDRIVER -Wno-pedantic -shared -Wl,-soname,$(@F) -Wl,-Bsymbolic -o $@ $<

$(HOOK)/entries: tests/hook/entries.c $(HOOK)/check.o $(HOOK)/every/libcuda.so.1
	@$(CC) $(filter-out -MMD -MP,$(HOOK_CFLAGS)) -I$(HOOK)/every -rdynamic -o $@ $< $(HOOK)/check.o -ldl

$(HOOK)/own_names: $(HOOK)/own_names.o $(HOOK)/check.o $(HOOK)/own/libcuda.so.1
	@echo "  LINK $@"
	@$(CC) -o $@ $(filter %.o,$^)

# --- the hooks of libc10, in both manglings ---

$(HOOK)/c10/libc10_cuda.so: HOOK_ALLOCATOR := -DALLOCATOR
HOOK_C10 := $(HOOK)/c10/libc10.so $(HOOK)/c10/libc10_cuda.so

$(HOOK_C10): tests/hook/fake_c10.c tests/hook/fake_c10.h tests/hook/hook.mk
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CC) -O1 -fPIC -Wall -Wextra -Werror $(HOOK_ALLOCATOR) -shared -Wl,-soname,$(@F) -o $@ $<

$(HOOK)/c10_blocks: $(HOOK)/c10_blocks.o $(HOOK)/check.o $(HOOK_C10) $(HOOK_RUNTIME_13)
	@echo "  LINK $@"
	@$(CC) -Wl,--no-as-needed -o $@ $^ -Wl,-rpath-link,build/sim/driver

# --- the loader, other interposers of the driver, races: each source is the program and what is preloaded or opened ---

$(HOOK)/libloader_lock.so: HOOK_ROLE := -DCONSTRUCTOR
$(HOOK)/libdriver_interposer.so $(HOOK)/libunmap_race.so $(HOOK)/libreading_race.so $(HOOK)/libhook_dlsym.so: HOOK_ROLE := -DINTERPOSER
HOOK_BESIDE := $(addprefix $(HOOK)/lib,loader_lock.so driver_interposer.so unmap_race.so reading_race.so hook_dlsym.so)
$(HOOK_BESIDE): $(HOOK)/lib%.so: tests/hook/%.c tests/hook/hook.mk | $(CUDA_HEADERS)
	@mkdir -p $(@D)
	@$(CC) $(filter-out -MMD -MP,$(HOOK_CFLAGS)) $(HOOK_ROLE) -shared -o $@ $< -ldl

HOOK_QUOTAS := $(HOOK)/libhook_dlsym.so $(HOOK)/libquota-CREATES.so $(HOOK)/libquota-BY_QUESTION.so $(HOOK)/libquota-OF_RUNTIME.so
govern-tools: $(HOOK_QUOTAS) $(HOOK)/libdriver_interposer.so # for tests/govern/mode.bats
$(HOOK)/libquota-%.so: tests/hook/hook_dlsym.c tests/hook/hook.mk | $(CUDA_HEADERS)
	@mkdir -p $(@D)
	@$(CC) $(filter-out -MMD -MP,$(HOOK_CFLAGS)) -DINTERPOSER -D$* -shared -Wl,-Bsymbolic -o $@ $< -ldl

$(HOOK)/loader_lock: $(HOOK)/loader_lock.o $(HOOK)/check.o $(HOOK_C10) $(HOOK_RUNTIME_13) $(HOOK_DRIVER)
	@$(CC) -rdynamic -Wl,--no-as-needed -o $@ $^ -lpthread

$(HOOK)/no_cuda $(HOOK)/late_driver: $(HOOK)/%: $(HOOK)/%.o $(HOOK)/check.o
	@$(CC) -rdynamic -o $@ $^ -ldl

$(HOOK)/snapshot_size: $(HOOK)/snapshot_size.o $(HOOK)/check.o $(HOOK_RUNTIME_13)
	@$(CC) -o $@ $^ -Wl,-rpath-link,build/sim/driver

$(HOOK)/driver_interposer-linked: tests/hook/driver_interposer.c $(HOOK)/check.o $(HOOK_DRIVER)
	@$(CC) $(filter-out -MMD -MP,$(HOOK_CFLAGS)) -DLINKED -o $@ $^ -ldl

$(HOOK)/driver_interposer-opened: tests/hook/driver_interposer.c $(HOOK)/check.o
	@$(CC) $(filter-out -MMD -MP,$(HOOK_CFLAGS)) -o $@ $^ -ldl

$(HOOK)/unmap_race $(HOOK)/reading_race $(HOOK)/forked: $(HOOK)/%: $(HOOK)/%.o $(HOOK)/check.o $(HOOK_DRIVER)
	@$(CC) -o $@ $^ -ldl -lpthread

$(HOOK)/hook_dlsym: $(HOOK)/hook_dlsym.o $(HOOK)/check.o
	@$(CC) -rdynamic -o $@ $^ -ldl

$(HOOK)/runtimes: $(HOOK)/runtimes.o $(HOOK)/check.o
	@$(CC) -rdynamic -o $@ $^ -ldl

$(HOOK)/libruntimes_client-11.so: $(HOOK_RUNTIME_11)
$(HOOK)/libruntimes_client-12.so: $(HOOK_RUNTIME_12)
$(HOOK)/libruntimes_client-13.so: $(HOOK_RUNTIME_13)
$(HOOK)/libruntimes_client-%.so: tests/hook/runtimes.c tests/hook/hook.mk | $(CUDA_HEADERS)
	@mkdir -p $(@D)
	@$(CC) $(filter-out -MMD -MP,$(HOOK_CFLAGS)) -DCLIENT -shared -o $@ $(filter-out %.mk,$^)

HOOK_OTHERS := $(HOOK_BESIDE) $(HOOK)/libquota-BY_QUESTION.so $(addprefix $(HOOK)/,loader_lock no_cuda late_driver snapshot_size runtimes unmap_race reading_race forked hook_dlsym \
    $(foreach how,linked opened,driver_interposer-$(how)) $(foreach m,11 12 13,libruntimes_client-$(m).so))

# --- for tests/e2e/lifetime.bats and store.bats ---

$(HOOK)/peek: $(HOOK)/peek.o
	@$(CC) -o $@ $^

$(HOOK)/libno_thread.so $(HOOK)/libfail.so $(HOOK)/libfork.so $(HOOK)/libexit_behind.so: $(HOOK)/lib%.so: tests/hook/%.c tests/hook/hook.mk
	@mkdir -p $(@D)
	@$(CC) -D_GNU_SOURCE -O1 -fPIC -Wall -Wextra -Werror -shared -o $@ $< -ldl

$(HOOK)/libstatic_tls-504.so $(HOOK)/libstatic_tls-4096.so: $(HOOK)/libstatic_tls-%.so: tests/hook/static_tls.c tests/hook/hook.mk
	@mkdir -p $(@D)
	@$(CC) -DKIB=$* -O1 -fPIC -Wall -Wextra -Werror -shared -o $@ $<

# --- stress: all objects of the library but the override of dlsym, with a fake device, under the sanitizers ---

HOOK_SOURCES := $(filter %.c,$(LIB_SOURCES)) $(addprefix tests/hook/,stress.c fake_cuda.c fake_runtime.c check.c)
HOOK_SOURCE_HEADERS := $(wildcard src/*.def src/*/*.h include/*.h tests/hook/*.h) tests/hook/hook.mk
HOOK_SANITIZE_tsan := -fsanitize=thread
HOOK_SANITIZE_asan := -fsanitize=address,undefined -fno-sanitize-recover=undefined
HOOK_SANITIZE_plain :=

# $(call HOOK_STRESS,NAME)
define HOOK_STRESS
build/$(1)/%.o: %.c $(HOOK_SOURCE_HEADERS) build/stubs.def | $(CUDA_HEADERS)
	@mkdir -p $$(@D)
	@$(CC) $(CPPFLAGS_ALL) $(CUDA_CPPFLAGS) -Ibuild -Itests/hook -include tests/hook/unlucky.h -std=c11 -O1 -g $(WARNINGS) -fPIC $(HOOK_SANITIZE_$(1)) -c $$< -o $$@
build/$(1)/libc10_cuda.so: build/$(1)/tests/hook/allocator.o
	@$(CC) $(HOOK_SANITIZE_$(1)) -shared -o $$@ $$^
build/$(1)/stress: $(HOOK_SOURCES:%.c=build/$(1)/%.o) build/obj/hook/stubs.S.o build/$(1)/libc10_cuda.so
	@echo "  LINK $$@"
	@$(CC) $(HOOK_SANITIZE_$(1)) -rdynamic -o $$@ $$(filter %.o,$$^) -Lbuild/$(1) -lc10_cuda -Wl,-rpath,'$$$$ORIGIN' -lpthread
endef
$(foreach s,plain tsan asan,$(eval $(call HOOK_STRESS,$(s))))

# $(call HOOK_RUN,NAME,OPERATIONS): the statistics file goes beside the program.
HOOK_RUN = @rm -f build/$(1)/stress.vramgc*; $(AS_NEW) TSAN_OPTIONS="suppressions=tests/hook/tsan.supp halt_on_error=1" \
    ASAN_OPTIONS=detect_leaks=0 build/$(1)/stress build/$(1)/stress.vramgc $(2)

.PHONY: hook-tsan hook-asan hook-stress
hook-stress: build/plain/stress
	$(call HOOK_RUN,plain,200000)
hook-tsan: build/tsan/stress
	$(call HOOK_RUN,tsan,20000)
hook-asan: build/asan/stress
	$(call HOOK_RUN,asan,60000)

.PHONY: hook hook-check
hook: $(HOOK)/routes $(HOOK_CLIENTS) $(addprefix $(HOOK)/,passthrough lookup next chain cancel closed entries own_names two_devices c10_blocks libno_thread.so use peek libfail.so libfork.so libexit_behind.so libstatic_tls-504.so libstatic_tls-4096.so) $(HOOK_OTHERS)

e2e-check e2e-deep: hook build/libvramgc.so sim

hook-check: hook build/libvramgc.so sim
	@$(BATS) tests/hook
	@$(MAKE) --no-print-directory hook-stress

check-build: hook build/plain/stress

-include $(wildcard $(HOOK)/*.d $(HOOK)/direct/*.d)
