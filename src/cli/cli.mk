# cli.mk: the command `vramgc`. It shares base/ with the library as source, not as running code.

CLI_SOURCES := $(wildcard src/cli/*.c) src/base/text.c src/base/clean_text.c src/base/secrets.c src/base/parse.c src/base/options.c
CLI_OBJECTS := $(CLI_SOURCES:src/%=$(BUILD)/obj/%.o)

$(BUILD)/vramgc: $(CLI_OBJECTS)
	@echo "  LINK $@"
	@$(CC) $(CFLAGS_ALL) -o $@ $(CLI_OBJECTS) $(LDFLAGS)

# The schema of the JSON report, written by the program itself; a test compares them.
.PHONY: schema
schema: $(BUILD)/vramgc
	$(BUILD)/vramgc help schema > src/cli/schema.json

-include $(CLI_OBJECTS:.o=.d)
