# reclaim.mk: the tests of giving memory back, on PyTorch's own allocator: reclaim-check. Without Python (*.bats, a minute) and
# with a whole PyTorch (test_*.py, four minutes).

RECLAIM_PYTHON ?= build/venv/bin/python

build/reclaim/show: tests/reclaim/show.c include/vramgc_format.h src/stats.def
	@mkdir -p $(@D)
	$(CC) -std=c11 -O1 -g -Wall -Wextra -Wconversion -Werror -Iinclude -Isrc $< -o $@

.PHONY: reclaim-tools reclaim-c10 reclaim-python reclaim-check
reclaim-tools: build/reclaim/show build/libvramgc.so sim c10drive

reclaim-c10: reclaim-tools
	bats tests/reclaim

reclaim-check: reclaim-c10 reclaim-python
