/* What monitoring tools ask of the simulated device beside its memory: a card that does nothing, at
 * room temperature, without links to others. */
#include "nvml.h"

#include <stdlib.h>
#include <string.h>

struct fabric_info {
    unsigned version;
    unsigned char cluster_uuid[16];
    int status;
    unsigned clique;
    unsigned char state;
    unsigned health;
};

EXPORT int nvmlDeviceGetTemperature(struct device *device, int sensor, unsigned *celsius) {
    (void)sensor;
    return answer(device, celsius, 25);
}

EXPORT int nvmlDeviceGetPowerUsage(struct device *device, unsigned *milliwatts) {
    return answer(device, milliwatts, 15000);
}

EXPORT int nvmlDeviceGetEnforcedPowerLimit(struct device *device, unsigned *milliwatts) {
    return answer(device, milliwatts, 300000);
}

EXPORT int nvmlDeviceGetClockInfo(struct device *device, int type, unsigned *megahertz) {
    (void)type;
    return answer(device, megahertz, 210);
}

EXPORT int nvmlDeviceGetMaxClockInfo(struct device *device, int type, unsigned *megahertz) {
    (void)type;
    return answer(device, megahertz, 2500);
}

EXPORT int nvmlDeviceGetFanSpeed(struct device *device, unsigned *percent) {
    return answer(device, percent, 0);
}

EXPORT int nvmlDeviceGetComputeMode(struct device *device, unsigned *mode) {
    return answer(device, mode, 0);
}

/* An H200 in a virtual machine says so of a screen that is not there. */
EXPORT int nvmlDeviceGetDisplayMode(struct device *device, unsigned *connected) {
    return answer(device, connected, 1);
}

EXPORT int nvmlDeviceGetPersistenceMode(struct device *device, unsigned *mode) {
    return answer(device, mode, 0);
}

/* --- links between devices --- */

/* What a card without NVLink fabric answers is not documented. Default: the query itself is not
 * supported. PyTorch 2.13 ends its first expandable allocation then; SIMGPU_NVML_FABRIC=1 lets the
 * query succeed with the state "not supported" (0). */
EXPORT int nvmlDeviceGetGpuFabricInfoV(struct device *device, struct fabric_info *info) {
    const char *knob = getenv("SIMGPU_NVML_FABRIC");
    int result = check_device(device, info);
    if (result != NVML_SUCCESS)
        return result;
    if (!knob || strcmp(knob, "1") != 0)
        return NVML_ERROR_NOT_SUPPORTED;
    unsigned version = info->version;
    memset(info, 0, sizeof *info);
    info->version = version;
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetNvLinkRemoteDeviceType(struct device *device, unsigned link, int *type) {
    (void)link;
    int result = check_device(device, type);
    return result == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : result;
}

EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(struct device *device, unsigned link,
                                               struct pci_info *info) {
    (void)link;
    int result = check_device(device, info);
    return result == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : result;
}
