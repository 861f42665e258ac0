/* alert_try.c: see alert_try.h. Nothing in the sample is anybody's: a command may end the process
 * or move the file that it is told of. */
#include "cli/alert_try.h"
#include "cli/alert_commands.h"
#include "base/base.h"
#include "base/text.h"

#include <stdlib.h>
#include <unistd.h>

static void tell(const struct stats_file *record, const struct alert_rules *rules, size_t rule) {
    struct alert alert = {
        .rule = rule, .record = record, .device = record->file->devices, .times = 1};
    struct text text = TEXT_IN(alert.message);
    text_format(&text, "vramgc (pid %d): a test of %s. Nothing has happened.", (int)getpid(),
                rules->list[rule].when);
    alert.request_bytes = rules->list[rule].kind == ALERT_OOM ? (uint64_t)1 << 30 : 0;
    alert_commands_take(&alert);
}

void alert_try(const struct alert_rules *rules, const volatile sig_atomic_t *stopped) {
    static struct vramgc_file file;
    char path[] = "/tmp/vramgc-test-XXXXXX";
    struct stats_file record = {.file = &file, .path = path};
    int made = mkstemp(path); /* it stays empty: a command that copies it has one */
    file.pid = (uint64_t)getpid();
    text_copy(file.command_line, sizeof file.command_line, "vramgc watch --test");
    text_copy(file.devices[0].bus_id, sizeof file.devices[0].bus_id, "0000:01:00.0");
    file.devices[0].total_bytes = (uint64_t)8 << 30;
    alert_commands_begin(rules);
    alert_commands_say_all();
    for (size_t i = 0; i < rules->count; i++)
        tell(&record, rules, i);
    for (alert_commands_turn(); alert_commands_run() && !*stopped; alert_commands_turn())
        sleep_ns(10 * MILLISECOND_NS);
    alert_commands_kill();
    if (made >= 0)
        unlink(path);
}
