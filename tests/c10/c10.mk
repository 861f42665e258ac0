# Builds the driver of PyTorch's real allocator (tests/c10/README.md) against each release in
# C10_VERSIONS:
#   build/c10/VERSION/c10drive
# Which ones are taken stands in `releases`. Any from 2.0.1 on can be named (releases.h knows them
# apart): `make C10_VERSIONS=2.5.1 c10drive` takes the older dlsym route.
include tests/c10/releases
C10_VERSIONS ?= $(NEWEST_RELEASE)
export C10_VERSIONS
C10_DEEP_VERSIONS := $(OLDER_RELEASE) $(NEWEST_RELEASE)
C10_SOURCES := driver view random_operations allocator
C10_DRIVERS := $(C10_VERSIONS:%=build/c10/%/c10drive)

.PHONY: c10drive c10drive-deep
c10drive: $(C10_DRIVERS)
c10drive-deep: $(C10_DEEP_VERSIONS:%=build/c10/%/c10drive)

# A release as one number to compare with: 2.9.1 is 209. PyTorch changed the C++ ABI at 2.7, the
# language at 2.14 and the CUDA major at 2.1 and 2.11.
c10_release = $(shell echo $(1) | awk -F. '{ print $$1 * 100 + $$2 }')
c10_since = $(shell test $(call c10_release,$(1)) -ge $(2) && echo yes)
c10_cuda = $(if $(call c10_since,$(1),211),13,$(if $(call c10_since,$(1),201),12,11))

# $(1) the release. Its CUDA runtime is not linked: libc10_cuda.so needs it anyway and brings
# whichever the loader finds. Warnings are off in PyTorch's headers only.
define C10_RULES
build/c10/$(1)/torch/version.py: | scripts/fetch-c10
	scripts/fetch-c10 $(1)

build/c10/$(1)/%.o: tests/c10/%.cpp $(wildcard tests/c10/*.h) include/vramgc.h tests/c10/c10.mk \
		build/c10/$(1)/torch/version.py | build/headers/stamp
	@echo "  CXX  $(1): $$<"
	@$(CXX) -O1 -g -fPIC -Wall -Wextra -Werror -Iinclude \
	    -std=$(if $(call c10_since,$(1),214),c++20,c++17) -DC10_RELEASE=$(call c10_release,$(1)) \
	    -D_GLIBCXX_USE_CXX11_ABI=$(if $(call c10_since,$(1),207),1,0) \
	    -isystem build/c10/$(1)/include \
	    -isystem build/headers/cu$(call c10_cuda,$(1))/include -c $$< -o $$@

# All of it is in a shared library, because there the runtime's functions may stay undefined until
# the program is started. It takes the libraries where a wheel has them, so that the release is known.
build/c10/$(1)/libc10drive.so: $(C10_SOURCES:%=build/c10/$(1)/%.o)
	@$(CXX) -shared -o $$@ $$^ -Lbuild/c10/$(1)/lib -lc10_cuda -lc10 -pthread \
	    -Wl,-rpath,'$$$$ORIGIN/torch/lib'

build/c10/$(1)/c10drive: build/c10/$(1)/libc10drive.so
	@echo "  LINK $$@"
	@$(CXX) -o $$@ -Wl,--no-as-needed -Lbuild/c10/$(1) -lc10drive -Wl,-rpath,'$$$$ORIGIN' \
	    -Wl,--allow-shlib-undefined
endef
$(foreach version,$(sort $(C10_VERSIONS) $(C10_DEEP_VERSIONS)),$(eval $(call C10_RULES,$(version))))

.PHONY: c10-check
c10-check: c10drive-deep sim
	C10_VERSIONS="$(C10_DEEP_VERSIONS)" $(BATS) tests/c10/c10.bats
