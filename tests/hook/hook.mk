# hook.mk: tests of the hooks, the look-ups and the record behind them.
#   hook         builds them
#   hook-check   runs them, on the simulated device and on a fake one; sanitizers included

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

.PHONY: hook hook-check
hook: $(HOOK)/routes $(HOOK_CLIENTS) $(HOOK)/passthrough

-include $(wildcard $(HOOK)/*.d $(HOOK)/direct/*.d)
