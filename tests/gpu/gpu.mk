# gpu.mk: what is to be run on a machine with an NVIDIA GPU (tests/gpu/README.md). `make gpu-check` runs the
# short form of it on the simulated device, so that it works where there is a card; `make gpu-carried` all of it, from a folder that has
# only what travels.

.PHONY: gpu gpu-unit gpu-check gpu-carried
gpu: all

gpu-unit:
	$(AS_NEW) python3 -m unittest tests/gpu/test_gpu.py

gpu-check: gpu sim gpu-unit
	@rm -f $(BUILD)/gpu/card
	@mkdir -p $(BUILD)/gpu
	$(AS_NEW) SIMGPU_CARD="$(abspath $(BUILD)/gpu/card)" tests/on_card --mem 8GiB -- tests/gpu/run --short

gpu-carried: gpu sim
	$(AS_NEW) bats --timing tests/gpu/carried.bats
