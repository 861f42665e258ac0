/* test_alert.c: each happening is told once, in time, and what the report does not call an
 * out-of-memory is none. */
#include "unit.h"

#include "base/text.h"
#include "judge/alert.h"

#include <stdlib.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)

static struct {
    struct vramgc_file file;
    struct vramgc_refusal refusals[8];
    struct stats_file record;
    struct alert_seen seen;
    struct alert_rules rules;
    size_t told;
    struct alert latest;
} self;

static void take(const struct alert *alert) {
    self.told++;
    self.latest = *alert;
}

static int begin(void **state) {
    char why[128];
    (void)state;
    memset(&self, 0, sizeof self);
    self.file.device_count = 1;
    self.file.started_ns = 1000;
    self.file.pid = 6402;
    text_copy(self.file.command_line, 64, "python /home/me/ComfyUI/main.py --listen");
    self.file.devices[0].present = 1;
    self.file.devices[0].total_bytes = 1000 * MIB;
    text_copy(self.file.devices[0].bus_id, 16, "0000:01:00.0");
    self.record.file = &self.file;
    self.record.state = PROCESS_RUNNING;
    self.record.code = -1;
    return alert_rules_read(&self.rules, "oom|growth|80%:true", why, sizeof why) ? 0 : -1;
}

/* What one look tells of. */
static size_t look_from(uint64_t since_ns, bool last) {
    size_t before = self.told;
    alert_look(&self.rules, &self.seen, &self.record, since_ns, last, take);
    return self.told - before;
}

static size_t look(void) {
    return look_from(0, false);
}

static struct vramgc_refusal *run_out(void) {
    struct vramgc_refusal *refusal = &self.refusals[self.record.refusal_count];
    *refusal = (struct vramgc_refusal){.sequence = 1,
                                       .request_bytes = 64 * MIB,
                                       .total_bytes = 1000 * MIB,
                                       .cause = VRAMGC_CAUSE_FULL,
                                       .reported = VRAMGC_REPORTED};
    self.record.refusals[self.record.refusal_count++] = refusal;
    self.file.devices[0].stats.ooms++;
    return refusal;
}

static void out_of_memory(void **state) {
    (void)state;
    assert_int_equal(look(), 0);
    run_out();
    assert_int_equal(look(), 0); /* it may be none yet */
    assert_int_equal(look(), 1);
    assert_int_equal(self.latest.times, 1);
    assert_int_equal(self.latest.request_bytes, 64 * MIB);
    assert_ptr_equal(self.latest.device, &self.file.devices[0]);
    assert_memory_equal(self.latest.message,
                        "ComfyUI: main.py (pid 6402): OUT OF MEMORY 1x: 64.0 MiB wanted", 62);
    assert_null(strstr(self.latest.message, "went on")); /* it may be about to end by it */
    assert_int_equal(look(), 0);
    run_out();
    run_out();
    look();
    run_out(); /* may be none yet: neither told nor counted */
    assert_int_equal(look(), 1);
    assert_int_equal(self.latest.times, 2);
    assert_non_null(strstr(self.latest.message, "): OUT OF MEMORY 2x: 64.0 MiB wanted"));
    assert_int_equal(self.latest.message[self.latest.count], '2');
    assert_int_equal(self.latest.count_length, 1);
}

/* A record may know that memory ran out, and no more. */
static void nothing_more_is_known(void **state) {
    (void)state;
    self.file.devices[0].stats.ooms = 1;
    look();
    assert_int_equal(look(), 1);
    assert_non_null(strstr(self.latest.message, "): OUT OF MEMORY 1x. Nothing more is known"));
}

static void the_work_went_on(void **state) {
    (void)state;
    struct vramgc_refusal *refusal = run_out();
    assert_int_equal(look(), 0);
    refusal->reported = VRAMGC_WENT_ON;
    assert_int_equal(look(), 0);
    assert_int_equal(look_from(0, true), 0);
    run_out();
    look();
    assert_int_equal(look(), 1);
    assert_int_equal(self.latest.times, 1);
}

static void at_the_end(void **state) {
    (void)state;
    run_out();
    assert_int_equal(look_from(0, true), 1);
}

static void of_before(void **state) {
    (void)state;
    run_out();
    self.file.devices[0].stats.used_bytes.peak = 900 * MIB;
    assert_int_equal(look_from(2000, false), 0);
    assert_int_equal(look_from(2000, false), 0);
    run_out();
    look_from(2000, false);
    assert_int_equal(look_from(2000, false), 1);
}

static size_t look_at_use(uint64_t now_mib, uint64_t peak_mib) {
    self.file.devices[0].stats.used_bytes = (struct vramgc_gauge){now_mib * MIB, peak_mib * MIB};
    return look();
}

static void use(void **state) {
    (void)state;
    assert_int_equal(look_at_use(700, 799), 0);
    assert_int_equal(look_at_use(800, 800), 1);
    assert_int_equal(self.latest.rule, 2);
    assert_memory_equal(self.latest.message,
                        "ComfyUI: main.py (pid 6402): GPU 0: 80 % of 1000 MiB are in use", 63);
    assert_int_equal(look_at_use(950, 950), 0);
    assert_int_equal(look_at_use(760, 950), 0); /* not far enough below */
    assert_int_equal(look_at_use(810, 950), 0);
    assert_int_equal(look_at_use(740, 950), 0);
    assert_int_equal(look_at_use(810, 950), 1);
    assert_int_equal(look_at_use(500, 950), 0);
    assert_int_equal(look_at_use(500, 960), 1); /* a peak between two looks */
    assert_memory_equal(self.latest.message + 29,
                        "GPU 0: 96 % of 1000 MiB were in use for a moment; now 50 % are", 62);
    assert_int_equal(look_at_use(500, 960), 0);
}

static void growth(void **state) {
    static struct vramgc_job jobs[40];
    (void)state;
    for (uint64_t i = 0; i < 40; i++) {
        jobs[i] = (struct vramgc_job){
            .sequence = i + 1, .time_ns = i, .host_bytes = (1000 + 100 * i) * MIB};
        self.record.jobs[self.record.job_count++] = &jobs[i];
    }
    assert_int_equal(look(), 1);
    assert_int_equal(self.latest.rule, 1);
    assert_memory_equal(self.latest.message,
                        "ComfyUI: main.py (pid 6402): Host memory grows: ", 48);
    assert_int_equal(look(), 0);
}

static void fails(const char *value, const char *says) {
    struct alert_rules rules;
    char why[128];
    assert_false(alert_rules_read(&rules, value, why, sizeof why));
    assert_string_equal(why, says);
}

static void rules(void **state) {
    struct alert_rules rules;
    char why[128];
    (void)state;
    assert_true(alert_rules_read(&rules, " ;\n oom | 90% : a  b ; growth:!x; y\n 37.5%:z", why,
                                 sizeof why));
    assert_int_equal(rules.count, 4);
    assert_string_equal(rules.list[0].command, "a  b");
    assert_ptr_equal(rules.list[1].command, rules.list[0].command);
    assert_string_equal(rules.list[1].when, "90%");
    assert_true(rules.list[2].shell && !rules.list[3].shell);
    assert_string_equal(rules.list[2].command, "x; y");
    assert_int_equal(rules.list[3].percent * 10, 375);
    assert_true(alert_rules_read(&rules, "", why, sizeof why));
    assert_int_equal(rules.count, 0);
    fails("oom", "oom has no command, as in 'oom:notify-send vramgc {}'");
    fails("true", "true is not WHEN:COMMAND, as in 'oom:notify-send vramgc {}'");
    fails("90%: ", "90% has no command, as in '90%:notify-send vramgc {}'");
    fails("oom:!x \"{}\"", "{} is not replaced behind !: use \"$VRAMGC_ALERT_MESSAGE\"");
    const char *quotes = "quotes need ! in front of the command, for a shell to read them";
    fails("oom:x 'a b' {}", quotes);
    fails("oom:x --title=\"a b\" {}", quotes);
    assert_true(alert_rules_read(&rules, "oom:it's {}\noom:!x 'a' \\{\\}", why, sizeof why));
    fails("0%:x", "0% is not oom, growth or a percentage such as 90%");
    fails("101%:x", "101% is not oom, growth or a percentage such as 90%");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(out_of_memory, begin),
        cmocka_unit_test_setup(nothing_more_is_known, begin),
        cmocka_unit_test_setup(the_work_went_on, begin),
        cmocka_unit_test_setup(at_the_end, begin),
        cmocka_unit_test_setup(of_before, begin),
        cmocka_unit_test_setup(use, begin),
        cmocka_unit_test_setup(growth, begin),
        cmocka_unit_test(rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
