# bench.mk: what libvramgc.so costs (tests/bench/README.md). Never part of `make check`: nothing here passes or fails by
# time. `make bench` prints a table and writes build/bench/results.json.

BENCH := build/bench
BENCH_CC = $(CC) -std=c11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Wconversion -Werror -Iinclude -Itests/bench
BENCH_HEADERS := $(wildcard tests/bench/*.h tests/bench/standin/*.h)

$(BENCH)/lib/libc10.so: tests/bench/standin/c10.c
	@mkdir -p $(@D)
	$(BENCH_CC) -fPIC -shared -Wl,-soname,libc10.so $< -o $@

$(BENCH)/lib/libc10_cuda.so: tests/bench/standin/c10_cuda.c $(BENCH_HEADERS)
	@mkdir -p $(@D)
	$(BENCH_CC) -fPIC -shared -Wl,-soname,libc10_cuda.so $< -o $@

$(BENCH)/bench: tests/bench/bench.c tests/bench/rounds.c tests/bench/trace.c $(BENCH_HEADERS) \
		$(BENCH)/lib/libc10.so $(BENCH)/lib/libc10_cuda.so
	$(BENCH_CC) $(filter %.c,$^) -L$(BENCH)/lib -Wl,--no-as-needed -lc10 -lc10_cuda -Wl,-rpath,'$$ORIGIN/lib' -ldl -o $@

# PyTorch's real allocator, where scripts/fetch-c10 has brought it. Compiled as tests/c10 does for releases from 2.14 on.
BENCH_C10 ?= $(NEWEST_RELEASE)
BENCH_C10_DIR := build/c10/$(BENCH_C10)
BENCH_REAL := $(if $(wildcard $(BENCH_C10_DIR)/lib/libc10_cuda.so),$(BENCH)/bench_real $(BENCH)/libreal_allocator.so)

$(BENCH)/libreal_allocator.so: tests/bench/real_allocator.cpp
	@mkdir -p $(@D)
	$(CXX) -O2 -g -fPIC -std=c++20 -Wall -Wextra -Werror -isystem $(BENCH_C10_DIR)/include \
	    -isystem build/headers/cu13/include -shared $< -L$(BENCH_C10_DIR)/lib -lc10_cuda -lc10 \
	    -Wl,-rpath,'$$ORIGIN/../c10/$(BENCH_C10)/lib' -o $@

$(BENCH)/bench_real: tests/bench/bench_real.c tests/bench/rounds.c $(BENCH_HEADERS)
	@mkdir -p $(@D)
	$(BENCH_CC) $(filter %.c,$^) -ldl -o $@

bench: all sim $(BENCH)/bench $(BENCH_REAL)
	@python3 tests/bench/bench.py --library build/libvramgc.so --out $(BENCH)/results.json \
	    $(addprefix --only ,$(ONLY)) \
	    $(if $(BENCH_REAL),--real $(BENCH)/libreal_allocator.so)
