# prove.mk: `vramgc prove` on the simulated device.
#   proven        makes the proof that `scripts/simgpu --proven` shows to tests, lab and demo
#   prove-check   tests the command itself, also on devices that cheat

PROVEN := build/proven/stamp
$(PROVEN): $(BUILD)/vramgc | sim
	@rm -rf $(@D)
	@mkdir -p $(@D)
	@echo "  PROVE $(@D)"
	@XDG_STATE_HOME=$(abspath $(@D)) scripts/simgpu --devices 2 -- $(BUILD)/vramgc prove --quick > $(@D)/log 2>&1 || { cat $(@D)/log; exit 1; }
	@touch $@

.PHONY: proven prove-check
proven: $(PROVEN)

check-build: proven

prove-check: proven
	$(BATS) tests/prove
