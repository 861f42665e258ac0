/* card_reading.c: see card_reading.h. No name that NVML tells may steer a terminal. */
#include "read/card_reading.h"
#include "base/base.h"
#include "base/clean_text.h"
#include "base/text.h"

#include <dlfcn.h>

static struct {
    bool asked;
    struct nvml nvml;
} self;

static const struct nvml *nvml(void) {
    if (!self.asked)
        nvml_open(&self.nvml, dlsym);
    self.asked = true;
    return &self.nvml;
}

static int watts_of(int (*power)(nvml_card, unsigned *), nvml_card card) {
    unsigned milliwatts = 0;
    return power && power(card, &milliwatts) == 0 ? (int)((milliwatts + 500) / 1000) : -1;
}

static struct card_sensors read_sensors(nvml_card card) {
    unsigned percents[2] = {0}, celsius = 0;
    struct card_sensors out = {.busy_percent = -1, .celsius = -1};
    if (nvml()->busy && nvml()->busy(card, percents) == 0)
        out.busy_percent = (int)percents[0];
    if (nvml()->heat && nvml()->heat(card, 0, &celsius) == 0)
        out.celsius = (int)celsius;
    out.watts = watts_of(nvml()->power, card);
    out.most_watts = watts_of(nvml()->most_power, card);
    out.known = out.busy_percent >= 0 || out.celsius >= 0 || out.watts >= 0;
    return out;
}

static void read_memory(nvml_card card, struct card_reading *reading) {
    struct nvml_memory memory = {0};
    reading->known = nvml_memory(nvml(), card, &memory) && memory.total > 0;
    reading->free_bytes = memory.free;
    reading->total_bytes = memory.total;
    reading->used_bytes = minus_u64(memory.total, memory.free);
}

void card_read_memory(const char *bus_id, struct card_reading *reading) {
    read_memory(nvml_by_bus(nvml(), bus_id), reading);
}

struct card_reading card_read(const char *bus_id) {
    struct card_reading reading = {.users.complete = true};
    nvml_card card = nvml_by_bus(nvml(), bus_id);
    read_memory(card, &reading);
    if (!reading.known)
        return reading;
    reading.sensors = read_sensors(card);
    nvml_users(nvml(), card, &reading.users);
    nvml_add_graphics(nvml(), card, &reading.users);
    nvml_add_busy(nvml(), card, &reading.users);
    return reading;
}

bool card_is_divided(const char *bus_id) {
    return nvml_is_divided(nvml(), nvml_by_bus(nvml(), bus_id));
}

bool card_has_client(const char *bus_id, uint64_t pid) {
    return nvml_has_client(nvml(), nvml_by_bus(nvml(), bus_id), pid);
}

static bool read_label(unsigned number, struct card_label *out) {
    nvml_card card = nvml_by_number(nvml(), number);
    if (!nvml_bus_id(nvml(), card, out->bus_id, sizeof out->bus_id))
        return false;
    if (!nvml_name(nvml(), card, out->name, sizeof out->name))
        text_copy(out->name, sizeof out->name, "GPU");
    clean_text(out->name, sizeof out->name);
    return true;
}

size_t card_labels(struct card_label *out, size_t room) {
    unsigned found = nvml_count(nvml());
    size_t count = 0;
    for (unsigned i = 0; i < found && count < room; i++)
        count += read_label(i, &out[count]);
    return count;
}
