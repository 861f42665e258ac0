# fuzz.mk: statistics files with arbitrary content.
#   fuzz-check  about ten seconds of damaged files, under ASan and UBSan; part of `make check`
#   fuzz        libFuzzer, FUZZ_SECONDS long; needs clang

FUZZ := $(BUILD)/fuzz
FUZZ_SECONDS ?= 60
FUZZ_CHECK_SECONDS ?= 10
FUZZ_SOURCES := tests/fuzz/fuzz_report.c tests/e2e/make_file.c tests/e2e/make_file_parts.c tests/e2e/make_file_host.c tests/e2e/make_file_states.c $(filter-out src/cli/main.c,$(CLI_SOURCES))
FUZZ_FLAGS := -std=c11 -O1 -g -Wall -Wextra -Itests -Itests/e2e -I$(BUILD) -fno-omit-frame-pointer \
	-fsanitize=address,undefined -fno-sanitize-recover=all
FUZZ_HEADERS := $(wildcard $(foreach room,$(CLI_ROOMS) base,src/$(room)/*.h src/$(room)/*.def) src/*.def include/*.h tests/e2e/*.h) $(BUILD)/grafana-dashboard.json

# main.c has the table of commands, which the fuzzers do not run; its main() would be one too many.
$(FUZZ)/main.o: src/cli/main.c $(FUZZ_HEADERS) | $(CUDA_HEADERS)
	@mkdir -p $(@D)
	@$(CC) $(CPPFLAGS_ALL) $(CUDA_CPPFLAGS) -std=c11 -O1 -g -Dmain=vramgc_main -c $< -o $@

$(FUZZ)/mutate: tests/fuzz/mutate.c $(FUZZ_SOURCES) $(FUZZ)/main.o $(FUZZ_HEADERS)
	@echo "  CC   $@"
	@$(CC) $(CPPFLAGS_ALL) $(CUDA_CPPFLAGS) $(FUZZ_FLAGS) $(filter %.c %.S %.o,$^) -ljansson -pthread -ldl -o $@

$(FUZZ)/fuzz_report: $(FUZZ_SOURCES) $(FUZZ)/main.o $(FUZZ_HEADERS)
	@echo "  CC   $@"
	@clang $(CPPFLAGS_ALL) $(CUDA_CPPFLAGS) $(FUZZ_FLAGS) -fsanitize=fuzzer $(filter %.c %.S %.o,$^) -ljansson -pthread -ldl -o $@

.PHONY: fuzz fuzz-check
fuzz-check: $(FUZZ)/mutate
	@$(AS_NEW) $(FUZZ)/mutate $(FUZZ_CHECK_SECONDS)

fuzz: $(FUZZ)/fuzz_report
	@mkdir -p $(FUZZ)/corpus
	$(FUZZ)/fuzz_report -max_total_time=$(FUZZ_SECONDS) -max_len=8192 -len_control=0 -artifact_prefix=$(FUZZ)/ $(FUZZ)/corpus
