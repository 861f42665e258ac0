/* nvml.h: what the files of the simulated NVML share. */
#pragma once

#define EXPORT __attribute__((visibility("default")))

/* nvmlReturn_t */
enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7
};

/* nvmlDevice_t points to one of these. */
struct device {
    unsigned index;
};

struct pci_info {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

/* NVML_SUCCESS: NVML is in use, it is one of its devices, and there is a place for the answer. */
int check_device(const struct device *device, const void *out);

/* The answer to a question for one figure. */
int answer(struct device *device, unsigned *out, unsigned value);
