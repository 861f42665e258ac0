# unit.mk: unit tests of the pure parts, with cmocka. A new tests/unit/test_NAME.c is built and run
# once a line `UNIT_NAME = sources it tests` stands here; UNIT_LINK_NAME adds link options, UNIT_CUDA_NAME = y the
# headers of CUDA.

# What the command says of a file.
UNIT_JUDGE := $(wildcard src/judge/*.c src/read/*.c) src/base/hashmap.c \
    $(addprefix src/base/,clock.c options.c parse.c text.c clean_text.c state_folder.c lock.c ring.c control_group.c \
    nvml.c process_stat.c)
UNIT_LINK_JUDGE := -DVRAMGC_VERSION='"test"' -pthread -ldl

UNIT_heap = $(wildcard src/heap/*.c)
UNIT_LINK_heap = -Wl,--wrap=mmap,--wrap=munmap
UNIT_books = src/heap/books.c
UNIT_heap_random = $(wildcard src/heap/*.c) tests/unit/model.c
UNIT_tags = $(wildcard src/heap/*.c)
UNIT_frag = $(wildcard src/heap/*.c)
UNIT_derived = src/read/derived.c
UNIT_growth = src/track/owners.c $(UNIT_JUDGE)
UNIT_LINK_growth = $(UNIT_LINK_JUDGE)
UNIT_recording = $(UNIT_JUDGE)
UNIT_LINK_recording = $(UNIT_LINK_JUDGE)
UNIT_alert = $(UNIT_JUDGE)
UNIT_LINK_alert = $(UNIT_LINK_JUDGE)
UNIT_sentences = tests/unit/case.c $(UNIT_JUDGE)
UNIT_LINK_sentences = $(UNIT_LINK_JUDGE) -Wl,--wrap=facts_fit
UNIT_host_rule = src/policy/policy.c
UNIT_host_memory = src/host/memory.c $(UNIT_store)
UNIT_LINK_host_memory = -pthread -ldl
UNIT_peak = $(UNIT_JUDGE)
UNIT_LINK_peak = $(UNIT_LINK_JUDGE)
UNIT_webui = $(UNIT_JUDGE)
UNIT_LINK_webui = $(UNIT_LINK_JUDGE)
UNIT_units = src/read/units.c src/base/text.c
UNIT_owners = src/track/owners.c
UNIT_phases = src/python/phases.c $(addprefix src/base/,clock.c log.c text.c clean_text.c)
UNIT_card = src/card/threshold.h
UNIT_policy = src/policy/policy.c
UNIT_policy_decay = src/policy/policy.c
UNIT_page_table = tests/unit/page_model.c src/vm/page_table.c src/vm/victim.c src/vm/page_table_valid.c
UNIT_page_rules = src/vm/page_table.c src/vm/victim.c src/vm/page_table_valid.c
UNIT_book = src/vm/book.c src/base/hashmap.c src/base/lock.c
UNIT_arena = src/vm/arena.c src/vm/tree.c
UNIT_text = src/base/text.c
UNIT_parse = src/base/parse.c
UNIT_options = src/base/options.c src/base/parse.c src/base/text.c
UNIT_secrets = src/base/clean_text.c src/base/text.c
UNIT_clean_text = src/base/clean_text.c src/base/text.c
UNIT_log = src/base/clock.c src/base/log.c src/base/text.c src/base/clean_text.c
UNIT_ledger = src/base/hashmap.c
UNIT_LINK_ledger = -Wl,--wrap=mmap
UNIT_store = $(wildcard src/store/*.c) $(filter-out src/base/lock.c,$(wildcard src/base/*.c))
UNIT_LINK_store = -pthread
UNIT_timeline = $(UNIT_store)
UNIT_LINK_timeline = -pthread
UNIT_lock = src/base/lock.c
UNIT_LINK_lock = -pthread
UNIT_last_resort = src/govern/last_resort.c src/base/clock.c
UNIT_CUDA_last_resort = y
UNIT_soft_oom = src/policy/policy.c
UNIT_python = src/govern/python.c src/python/python_api.c src/base/clock.c src/base/lock.c
UNIT_CUDA_python = y
UNIT_LINK_python = -pthread
UNIT_alloc_conf = src/govern/torch.c src/govern/mode_table.c src/base/text.c src/base/proof.c src/base/state_folder.c
UNIT_mode = src/govern/mode_table.c src/base/options.c src/base/parse.c src/govern/torch.c src/base/text.c src/base/proof.c src/base/state_folder.c

UNIT_NAMES := $(patsubst tests/unit/test_%.c,%,$(wildcard tests/unit/test_*.c))
UNIT_HEADERS := $(wildcard include/*.h src/*.def src/*/*.def src/*/*.h tests/unit/*.h)
UNIT_SANITIZE := -O1 -fsanitize=address,undefined -fno-sanitize-recover=all

# $(1): name; $(2): folder under build/; $(3): further options of the compiler
define UNIT_RULE
ifeq ($$(strip $$(UNIT_$(1))),)
$$(error tests/unit/test_$(1).c needs a line UNIT_$(1) = ... in tests/unit/unit.mk)
endif
build/$(2)/test_$(1): tests/unit/test_$(1).c $$(UNIT_$(1)) $$(UNIT_HEADERS) tests/unit/unit.mk $$(if $$(UNIT_CUDA_$(1)),| $$(CUDA_HEADERS))
	@mkdir -p $$(@D)
	$$(CC) $$(CPPFLAGS) $$(CFLAGS) $(3) -Itests/unit $$(if $$(UNIT_CUDA_$(1)),$$(CUDA_CPPFLAGS)) $$(filter %.c,$$^) $$(LDFLAGS) \
	    $$(UNIT_LINK_$(1)) -lcmocka -o $$@
endef

$(foreach name,$(UNIT_NAMES),$(eval $(call UNIT_RULE,$(name),unit,)))
$(foreach name,$(UNIT_NAMES),$(eval $(call UNIT_RULE,$(name),unit-asan,$(UNIT_SANITIZE))))

# Runs each of $(1), all of them even if one fails.
UNIT_RUN = failed=0; for test in $(1); do echo "== $$test"; $(AS_NEW) $$test || failed=1; done; exit $$failed

.PHONY: unit unit-check unit-asan

unit: $(UNIT_NAMES:%=build/unit/test_%)

unit-check: unit
	@$(call UNIT_RUN,$(UNIT_NAMES:%=build/unit/test_%))

unit-asan: $(UNIT_NAMES:%=build/unit-asan/test_%)
	@$(call UNIT_RUN,$^)

check-build: unit
