"""Asks the simulated NVML through ctypes what monitoring tools ask; run under scripts/simgpu --mem 2GiB --devices 3."""
import ctypes
import os
import sys

GIB = 1 << 30


class Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gpu", ctypes.c_uint), ("compute", ctypes.c_uint)]


def memory_of(nvml, device):
    memory = Memory()
    assert nvml.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)) == 0
    assert memory.free + memory.used == memory.total
    return memory


def processes_of(nvml, device, room):
    processes = (Process * 4)()
    count = ctypes.c_uint(room)
    result = nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), processes)
    return result, count.value, processes


def check_idle(nvml):
    count = ctypes.c_uint()
    assert nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 1, "uninitialised must be an error"
    assert nvml.nvmlInit_v2() == 0
    assert nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0 and count.value == 3
    device = ctypes.c_void_p()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(3, ctypes.byref(device)) == 2
    assert nvml.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(device)) == 0
    name = ctypes.create_string_buffer(64)
    assert nvml.nvmlDeviceGetName(device, name, 64) == 0 and b"GPU" in name.value
    assert nvml.nvmlDeviceGetName(device, name, 3) == 7
    memory = memory_of(nvml, device)
    assert memory.total == 2 * GIB and memory.used == 0
    assert processes_of(nvml, device, 4)[:2] == (0, 0)
    return device


def check_busy(nvml, driver, device):
    """100 MiB on device 1 are seen there, beside the context, and in this process."""
    context, pointer = ctypes.c_void_p(), ctypes.c_ulonglong()
    assert driver.cuCtxGetCurrent(ctypes.byref(context)) == 3, "NVML must not initialise CUDA"
    assert driver.cuInit(0) == 0
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 1) == 0
    assert driver.cuCtxSetCurrent(context) == 0
    used_before = memory_of(nvml, device).used
    assert used_before > 0
    assert driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(100 << 20)) == 0
    assert memory_of(nvml, device).used == used_before + (100 << 20)
    assert processes_of(nvml, device, 0)[:2] == (7, 1)
    result, count, processes = processes_of(nvml, device, 4)
    assert (result, count) == (0, 1)
    assert processes[0].pid == os.getpid() and processes[0].used == used_before + (100 << 20)
    assert driver.cuMemFree_v2(pointer) == 0


class Sample(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("time", ctypes.c_ulonglong)] + [(name, ctypes.c_uint) for name in ("sm", "memory", "encoder", "decoder")]


def check_utilization(nvml, driver, device):
    """Of each process that has memory there; nothing is found of an idle card, nor is it told with SIMGPU_BUSY=none."""
    pointer, samples, count = ctypes.c_ulonglong(), (Sample * 4)(), ctypes.c_uint(4)
    assert driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1 << 20)) == 0
    ask = lambda: nvml.nvmlDeviceGetProcessUtilization(device, samples, ctypes.byref(count), ctypes.c_ulonglong(0))
    assert ask() == 6
    os.environ["SIMGPU_BUSY"] = "40"
    assert ask() == 0 and count.value == 1
    assert (samples[0].pid, samples[0].sm) == (os.getpid(), 40) and samples[0].time > 0
    count.value = 0
    assert ask() == 7 and count.value == 1
    os.environ["SIMGPU_BUSY"] = "none"
    assert ask() == 3
    del os.environ["SIMGPU_BUSY"]
    assert driver.cuMemFree_v2(pointer) == 0


def check_identity(nvml, driver, device):
    """Name, UUID and bus are the driver's."""
    ours, theirs = ctypes.create_string_buffer(96), ctypes.create_string_buffer(96)
    assert nvml.nvmlDeviceGetName(device, ours, 96) == 0
    assert driver.cuDeviceGetName(theirs, 96, 1) == 0
    assert ours.value == theirs.value, (ours.value, theirs.value)
    assert nvml.nvmlDeviceGetUUID(device, ours, 96) == 0
    assert driver.cuDeviceGetUuid_v2(theirs, 1) == 0
    assert ours.value.replace(b"-", b"") == b"GPU" + theirs.raw[:16].hex().encode(), ours.value
    found = ctypes.c_void_p()
    assert driver.cuDeviceGetPCIBusId(theirs, 96, 1) == 0
    assert nvml.nvmlDeviceGetHandleByPciBusId_v2(theirs, ctypes.byref(found)) == 0 and found.value == device.value
    assert nvml.nvmlDeviceGetHandleByUUID(ours, ctypes.byref(found)) == 0 and found.value == device.value


def check_fabric(nvml, device):
    """Without the knob the query is not supported; with it the state is."""
    info = ctypes.create_string_buffer(b"\xff" * 36, 36)
    assert nvml.nvmlDeviceGetGpuFabricInfoV(device, info) == 3
    os.environ["SIMGPU_NVML_FABRIC"] = "1"
    assert nvml.nvmlDeviceGetGpuFabricInfoV(device, info) == 0 and info.raw[28] == 0


def main():
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    driver = ctypes.CDLL("libcuda.so.1")
    device = check_idle(nvml)
    check_busy(nvml, driver, device)
    check_utilization(nvml, driver, device)
    check_identity(nvml, driver, device)
    check_fabric(nvml, device)
    assert nvml.nvmlShutdown() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
