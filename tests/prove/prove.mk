# prove.mk: `vramgc prove` on the simulated device.
#   proven        makes the proof that `tests/on_card --proven` shows to tests, lab and demo
#   prove-check   tests the command itself, also on devices that cheat
#   prove-deep    on devices that are as hard as a card may be

PROVEN := build/proven/stamp
$(PROVEN): $(BUILD)/vramgc | sim
	@rm -rf $(@D)
	@mkdir -p $(@D)
	@echo "  PROVE $(@D)"
	@$(AS_NEW) SIMGPU_CARD="$(abspath $(@D))/card" XDG_STATE_HOME="$(abspath $(@D))" tests/on_card --devices 2 -- $(BUILD)/vramgc prove --quick --verbose > $(@D)/log 2>&1 || { cat $(@D)/log; exit 1; }
	@touch $@

.PHONY: proven prove-check prove-deep
proven: $(PROVEN)

check-build: proven

prove-check: proven c10drive
	$(BATS_QUICK) tests/prove

prove-deep: proven c10drive
	$(BATS) --filter-tags deep tests/prove
