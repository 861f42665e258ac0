/* alert_try.c: see alert_try.h. Nothing in the sample is anybody's: a command may end the process
 * or move the file that it is told of. */
#include "cli/alert_try.h"
#include "cli/alert_commands.h"
#include "base/base.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    struct vramgc_file file;
    struct vramgc_refusal refusal;
    struct stats_file record;
    const struct alert_rule *rule;
    size_t number; /* of the rule */
} self;

static void take(const struct alert *alert) {
    struct alert told = *alert;
    struct text text = TEXT_IN(told.message);
    text_format(&text, "A test of %s, nothing has happened: ", self.rule->when);
    if (told.count_length > 0)
        told.count += text.length;
    text_add(&text, alert->message);
    told.rule = self.number;
    alert_commands_take(&told);
}

/* A card that is as full as the rule says, or nearly full. */
static void fill_card(struct vramgc_device *device) {
    const uint64_t total = (uint64_t)8 << 30, others = (uint64_t)480 << 20;
    uint64_t free = self.rule->kind == ALERT_USE
                        ? (uint64_t)((double)total * (100 - self.rule->percent) / 100)
                        : (uint64_t)300 << 20;
    uint64_t used = total - free, held = minus_u64(used, others);
    memset(device, 0, sizeof *device);
    device->present = 1;
    device->total_bytes = total;
    text_copy(device->bus_id, sizeof device->bus_id, "0000:01:00.0");
    device->stats.used_bytes = (struct vramgc_gauge){used, used};
    device->stats.held_bytes = (struct vramgc_gauge){held, held};
    device->stats.live_bytes = (struct vramgc_gauge){held / 8 * 7, held / 8 * 7};
}

static void run_out(struct vramgc_device *device) {
    uint64_t held = device->stats.held_bytes.current, live = device->stats.live_bytes.current;
    self.refusal = (struct vramgc_refusal){.sequence = 1,
                                           .time_ns = SECOND_NS,
                                           .cause = VRAMGC_CAUSE_FULL,
                                           .reported = VRAMGC_REPORTED,
                                           .request_bytes = (uint64_t)2 << 30,
                                           .allocated_bytes = live,
                                           .reserved_bytes = held,
                                           .held_bytes = held,
                                           .idle_bytes = held - live,
                                           .total_bytes = device->total_bytes};
    self.refusal.free_bytes = device->total_bytes - device->stats.used_bytes.current;
    self.record.refusals[self.record.refusal_count++] = &self.refusal;
    device->stats.ooms = 1;
}

/* What stays after each job, up to what is live now. */
static void let_grow(struct vramgc_device *device) {
    struct vramgc_floors *floors = &device->floors;
    enum { TIMES = 40, STEP = 64 << 20 };
    floors->merged = 1;
    for (floors->count = 0; floors->count < TIMES; floors->count++)
        floors->bytes[floors->count] =
            device->stats.live_bytes.current - (TIMES - floors->count) * STEP;
    floors->turns = floors->count;
}

/* The words are those of a real one. */
static void tell(const struct alert_rules *rules, size_t number) {
    struct alert_rules one = {.list = {rules->list[number]}, .count = 1};
    struct alert_seen seen = {0};
    struct vramgc_device *device = self.file.devices;
    self.rule = &rules->list[number];
    self.number = number;
    self.record.refusal_count = 0;
    fill_card(device);
    if (self.rule->kind == ALERT_OOM)
        run_out(device);
    if (self.rule->kind == ALERT_GROWTH)
        let_grow(device);
    alert_look(&one, &seen, &self.record, 0, true, take);
}

void alert_try(const struct alert_rules *rules, const volatile sig_atomic_t *stopped) {
    char path[] = "/tmp/vramgc-test-XXXXXX";
    int made = mkstemp(path); /* it stays empty: a command that copies it has one */
    self.record =
        (struct stats_file){.file = &self.file, .path = path, .state = PROCESS_RUNNING, .code = -1};
    self.file.pid = (uint64_t)getpid();
    self.file.device_count = 1;
    text_copy(self.file.command_line, sizeof self.file.command_line, "vramgc watch --test");
    alert_commands_begin(rules);
    alert_commands_say_all();
    for (size_t i = 0; i < rules->count; i++)
        tell(rules, i);
    for (alert_commands_turn(); alert_commands_run() && !*stopped; alert_commands_turn())
        sleep_ns(10 * MILLISECOND_NS);
    alert_commands_kill();
    if (made >= 0)
        unlink(path);
}
