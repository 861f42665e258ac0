# mutants.mk: sees that the tests can fail: one build holds each wrong line that src/base/mutant.h names, VRAMGC_MUTANT chooses one.

.PHONY: mutants-library mutants-check
mutants-library:
	@$(MAKE) --no-print-directory BUILD=build/mutants CPPFLAGS=-DMUTANTS build/mutants/libvramgc.so build/mutants/vramgc

mutants-check: mutants-library hook build/vm/threads-mutants build/vm/pool_threads-mutants build/sanitize/mutants/names vm-tools govern-tools c10drive-deep
	$(BATS) tests/mutants
