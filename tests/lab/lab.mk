# The lab's own tests: lab-unit takes some seconds, lab-check runs real workloads on the simulated
# device (four minutes).
LAB_PYTHON ?= $(or $(PYTHON),build/venv/bin/python)

.PHONY: lab-venv lab-unit lab-check
lab-venv:
	scripts/setup-python

# Tests have PyTorch made before the simulated device's stand-ins for its libraries are.
ifneq ($(filter check-build proven %-check %-deep %-python,$(MAKECMDGOALS)),)
sim-vendor-if-torch: | lab-venv
endif

# A test of the lab needs no PyTorch, so the system's Python will do.
lab-unit:
	$(AS_NEW) python3 -m unittest tests/lab/test_lab.py tests/lab/test_default.py
	$(BATS) tests/lab/scripts.bats

lab-check: lab-venv all sim proven
	$(AS_NEW) $(LAB_PYTHON) -m unittest -v tests/lab/test_workloads.py tests/lab/test_told.py
	$(AS_NEW) scripts/lab --same --workloads sd15 --settings default --fresh
