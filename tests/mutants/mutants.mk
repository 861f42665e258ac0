# mutants.mk: sees that the tests can fail: one build of a copy holds each wrong line of the tables here, VRAMGC_MUTANT chooses one.

MUTANTS := build/mutants/src
MUTANTS_CPPFLAGS := -I$(MUTANTS) -Itests/mutants
$(MUTANTS)/stamp: $(shell find src -type f) $(wildcard tests/mutants/*)
	@tests/mutants/splice $(MUTANTS)
	@touch $@

.PHONY: mutants-library mutants-check
mutants-library: $(MUTANTS)/stamp
	@$(MAKE) --no-print-directory BUILD=build/mutants SRC=$(MUTANTS) CPPFLAGS=-Itests/mutants build/mutants/libvramgc.so build/mutants/vramgc

# A unit test of the copy.
MUTANT_UNITS := $(patsubst %,build/mutants/unit/test_%,policy policy_decay page_rules)
$(MUTANT_UNITS): build/mutants/unit/test_%: tests/unit/test_%.c $(MUTANTS)/stamp
	@mkdir -p $(@D)
	@$(CC) -I$(MUTANTS) -Itests/mutants -Itests/unit $(CPPFLAGS) $(CFLAGS) $< $(UNIT_$*:src/%=$(MUTANTS)/%) -lcmocka -o $@

mutants-check: mutants-library $(MUTANT_UNITS) hook build/vm/threads-mutants build/vm/pool_threads-mutants build/sanitize/mutants/names vm-tools govern-tools c10drive-deep
	$(BATS) tests/mutants
