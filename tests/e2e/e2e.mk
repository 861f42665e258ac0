# e2e.mk: tests from outside, with bats: of the command with a stand-in for the library (run.bats, report.bats, readme.bats: `make cli-check`),
# of the real library's statistics file (lifetime.bats, store.bats), of what the guides say (guides.bats), and of a real PyTorch in each
# mode (modes.bats). Needs no GPU.

E2E := $(BUILD)/e2e
E2E_FILE := $(wildcard tests/e2e/make_file*.[ch]) include/vramgc_format.h src/stats.def src/causes.def

$(E2E)/make_file: $(E2E_FILE) src/base/clock.c
	@mkdir -p $(@D)
	@$(CC) $(CPPFLAGS_ALL) -std=c11 -O1 -g -Wall -Wextra -Werror $(filter %.c,$^) -o $@

$(E2E)/libfake.so: tests/e2e/fake_library.c src/base/clock.c src/base/text.c src/base/control_group.c $(filter-out %_main.c,$(E2E_FILE))
	@mkdir -p $(@D)
	@$(CC) $(CPPFLAGS_ALL) -std=c11 -O1 -g -Wall -Wextra -Werror -fPIC -fvisibility=hidden -shared $(filter %.c,$^) -o $@

$(E2E)/libempty.so:
	@mkdir -p $(@D)
	@echo 'int vramgc_test_nothing;' | $(CC) -x c -fPIC -shared - -o $@

$(E2E)/libmakes_node.so: tests/e2e/makes_node.c
	@mkdir -p $(@D)
	@$(CC) -std=c11 -O1 -g -Wall -Wextra -Werror -fPIC -shared $< -o $@

$(E2E)/libopened.so: tests/e2e/opened.c
	@mkdir -p $(@D)
	@$(CC) -std=c11 -O1 -g -Wall -Wextra -Werror -fPIC -shared -Wl,-soname,libcuda.so.1 $< -o $@

# Without ncurses: proves, too, that nothing but top_screen.c needs it.
$(E2E)/top_screen.o: src/cli/top_screen.c src/cli/top_screen.h
	@mkdir -p $(@D)
	@$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -c $< -o $@

$(E2E)/vramgc-without-ncurses: $(filter-out %/top_screen.c.o,$(CLI_OBJECTS)) $(E2E)/top_screen.o
	@$(CC) $(CFLAGS_ALL) -o $@ $^ $(LDFLAGS) -pthread -ldl

.PHONY: e2e e2e-check e2e-deep cli-check
e2e: $(BUILD)/vramgc $(BUILD)/libvramgc.so $(E2E)/make_file $(E2E)/libfake.so $(E2E)/libempty.so $(E2E)/libmakes_node.so $(E2E)/libopened.so $(E2E)/vramgc-without-ncurses

E2E_BATS := E2E_BUILD=$(E2E)

cli-check: e2e
	@$(E2E_BATS) $(BATS) tests/e2e/run.bats tests/e2e/report.bats tests/e2e/readme.bats

# tests/hook/hook.mk adds what lifetime.bats and store.bats need.
e2e-check: e2e proven c10drive sim
	@$(E2E_BATS) $(BATS_QUICK) tests/e2e

e2e-deep: e2e proven c10drive sim
	@scripts/bare-systems
	@scripts/fetch-promtool
	@scripts/fetch-perfetto
	@$(E2E_BATS) $(BATS) --filter-tags deep tests/e2e

check-build: e2e
