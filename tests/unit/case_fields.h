/* case_fields.h: words of case.h that are a size in MiB, and where it goes. */
static const struct {
    const char *name;
    size_t offset;
} of_refusal[] =
    {
        {"request", offsetof(struct vramgc_refusal, request_bytes)},
        {"free", offsetof(struct vramgc_refusal, free_bytes)},
        {"idle", offsetof(struct vramgc_refusal, idle_bytes)},
        {"held", offsetof(struct vramgc_refusal, held_bytes)},
        {"live", offsetof(struct vramgc_refusal, allocated_bytes)},
        {"other", offsetof(struct vramgc_refusal, other_bytes)},
        {"step", offsetof(struct vramgc_refusal, step_bytes)},
        {"kept", offsetof(struct vramgc_refusal, kept_bytes)},
        {"limited", offsetof(struct vramgc_refusal, limited_bytes)},
        {"total", offsetof(struct vramgc_refusal, total_bytes)},
},
  of_file[] = {
      {"weights", offsetof(struct vramgc_file, weights_bytes)},
      {"cap", offsetof(struct vramgc_file, limits.cap)},
      {"headroom", offsetof(struct vramgc_file, limits.headroom)},
      {"ram", offsetof(struct vramgc_file, host.latest.anon_bytes)},
      {"swap", offsetof(struct vramgc_file, host.latest.swap_bytes)},
      {"ram-limit", offsetof(struct vramgc_file, host.latest.limit_bytes)},
      {"ram-counted", offsetof(struct vramgc_file, host.latest.group_bytes)},
      {"ram-total", offsetof(struct vramgc_file, host.latest.total_bytes)},
      {"ram-left", offsetof(struct vramgc_file, host.latest.available_bytes)},
      {"held-peak", offsetof(struct vramgc_file, devices[0].stats.held_bytes.peak)},
      {"live-peak", offsetof(struct vramgc_file, devices[0].stats.live_bytes.peak)},
      {"used-peak", offsetof(struct vramgc_file, devices[0].stats.used_bytes.peak)},
      {"reserved-now", offsetof(struct vramgc_file, devices[0].stats.reserved_bytes.current)},
      {"pool-peak", offsetof(struct vramgc_file, devices[0].stats.pool_bytes.peak)},
      {"held-now", offsetof(struct vramgc_file, devices[0].stats.held_bytes.current)},
      {"live-now", offsetof(struct vramgc_file, devices[0].stats.live_bytes.current)},
      {"used-now", offsetof(struct vramgc_file, devices[0].stats.used_bytes.current)},
      {"others-held", offsetof(struct vramgc_file, devices[0].stats.other_bytes.peak)},
      {"reserved-peak", offsetof(struct vramgc_file, devices[0].stats.reserved_bytes.peak)},
      {"others-peak", offsetof(struct vramgc_file, devices[0].stats.others_bytes.peak)},
      {"waste", offsetof(struct vramgc_file, devices[0].stats.page_waste_bytes.peak)},
      {"locked-peak", offsetof(struct vramgc_file, devices[0].stats.pinned_bytes.peak)},
      {"rounded-peak", offsetof(struct vramgc_file, devices[0].stats.pinned_rounded_bytes.peak)},
      {"pinned", offsetof(struct vramgc_file, devices[0].stats.pinned_bytes.current)},
      {"reclaimed", offsetof(struct vramgc_file, devices[0].stats.reclaimed_bytes)},
      {"spilled", offsetof(struct vramgc_file, devices[0].stats.spilled_bytes.peak)},
      {"own", offsetof(struct vramgc_file, devices[0].neighbours.own_bytes)},
};

static const char *const of_settings[] = {"asked", "lowvram", "threshold", "spill", "backtrace"};

static const char *const causes[] = {
#define CAUSE(name, seen, ...) seen,
#include "causes.def"
};
