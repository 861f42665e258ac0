# cli.mk: the command `vramgc`. It shares base/ with the library as source, not as running code.

# With the page engine itself: `vramgc prove` tries the very code that the library runs.
CLI_SOURCES := $(wildcard src/cli/*.[cS] src/prove/*.[cS] src/vm/*.c) $(addprefix src/base/,text.c clean_text.c secrets.c parse.c options.c proof.c state_folder.c lock.c)
CLI_OBJECTS := $(CLI_SOURCES:src/%=$(BUILD)/obj/%.o)

$(BUILD)/obj/prove/script.S.o: src/prove/soak.py
$(BUILD)/obj/cli/page.S.o: $(wildcard src/cli/page/*)

$(BUILD)/vramgc: $(CLI_OBJECTS)
	@echo "  LINK $@"
	@$(CC) $(CFLAGS_ALL) -o $@ $(CLI_OBJECTS) $(LDFLAGS) -pthread -ldl

# The schema of the JSON report, written by the program itself; a test compares them.
.PHONY: schema
schema: $(BUILD)/vramgc
	$(BUILD)/vramgc help schema > src/cli/schema.json

-include $(CLI_OBJECTS:.o=.d)
