# cli.mk: the command `vramgc`. It shares base/ with the library as source, not as running code.

# With the page engine itself: `vramgc prove` tries the very code that the library runs.
CLI_ROOMS := cli show judge read prove vm
CLI_SOURCES := $(wildcard $(CLI_ROOMS:%=$(SRC)/%/*.[cS]) $(SRC)/card/reading.c) $(addprefix $(SRC)/base/,text.c nvml.c process_stat.c clean_text.c parse.c options.c proof.c hashmap.c state_folder.c lock.c ring.c control_group.c log.c clock.c peer_file.c)
CLI_OBJECTS := $(CLI_SOURCES:$(SRC)/%=$(BUILD)/obj/%.o)

$(BUILD)/obj/cli/texts.S.o: $(wildcard src/show/page/*) src/show/prometheus-rules.yml $(BUILD)/grafana-dashboard.json src/prove/kernels.ptx src/cli/replay.py

$(BUILD)/grafana-dashboard.json: scripts/dashboard src/stats.def
	@mkdir -p $(@D)
	@scripts/dashboard > $@

# The live view of `vramgc top` needs ncurses, found by pkg-config; without it --once remains. Its archives are
# preferred, so that the command starts where ncurses is not installed. CURSES=archive, shared or no chooses.
has_archive = $(wildcard $(shell $(CC) -print-file-name=lib$(1).a))
CURSES ?= $(if $(shell pkg-config --exists ncursesw 2>/dev/null && echo yes),$(if $(and $(call has_archive,ncursesw),$(call has_archive,tinfo)),archive,shared),no)
ifeq ($(CURSES),no)
CURSES_NOTE := ; echo "  NOTE vramgc top has --once only: pkg-config finds no ncursesw (Debian, Ubuntu: pkg-config libncurses-dev; Fedora: pkgconf ncurses-devel; Arch: pkgconf ncurses)"
else
$(BUILD)/obj/cli/top_screen.c.o: CPPFLAGS_ALL += -DVRAMGC_CURSES $(shell pkg-config --cflags ncursesw)
CURSES_LIBS := $(if $(filter archive,$(CURSES)),-l:libncursesw.a -l:libtinfo.a,$(shell pkg-config --libs ncursesw))
endif

$(BUILD)/vramgc: $(CLI_OBJECTS)
	@echo "  LINK $@"$(CURSES_NOTE)
	@$(CC) $(CFLAGS_ALL) -o $@ $(CLI_OBJECTS) $(LDFLAGS) $(CURSES_LIBS) -pthread -ldl

# The schema of the JSON report, written by the program itself; a test compares them.
.PHONY: schema
schema: $(BUILD)/vramgc
	$(BUILD)/vramgc help schema > src/show/schema.json

-include $(CLI_OBJECTS:.o=.d)
