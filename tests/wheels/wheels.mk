# wheels.mk: the allocators of many PyTorch releases under random operations (README.md). Not part
# of `make check`: the first run downloads a wheel of 0.5 to 0.9 GB for each release.
WHEELS ?= 2.1.2 2.4.1 2.6.0 2.8.0 2.11.0 2.13.0 2.14.1
WHEELS_OPTIONS ?=

.PHONY: wheels
wheels: all sim proven
	@$(MAKE) -s C10_VERSIONS="$(WHEELS)" c10drive
	@python3 tests/wheels/matrix.py $(WHEELS) $(WHEELS_OPTIONS)
