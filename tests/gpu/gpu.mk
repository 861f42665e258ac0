# gpu.mk: what is to be run on a machine with an NVIDIA GPU (tests/gpu/README.md). `make gpu-check` runs the
# short form of it on the simulated device, so that it works where there is a card.

GPU_BUILD := build/gpu

$(GPU_BUILD)/costs: tests/gpu/costs.c | $(CUDA_HEADERS)
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(CC) -std=c11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Werror $(CUDA_CPPFLAGS) $< -o $@ -ldl

.PHONY: gpu gpu-unit gpu-check
gpu: all $(GPU_BUILD)/costs

gpu-unit:
	PYTHONPYCACHEPREFIX=build/pycache python3 -m unittest tests/gpu/test_gpu.py

gpu-check: gpu sim gpu-unit
	scripts/simgpu --mem 8GiB -- tests/gpu/run --short
