/* prove_card.c: see prove_card.h. It has no words of its own for what it finds. The head of the
 * proof is what the library reads: it must stay within PROOF_HEAD_BYTES. */
#include "prove/prove_card.h"
#include "base/state_folder.h"
#include "prove/child.h"
#include "prove/park_driver.h"
#include "vm/version.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* ---- the proof's file ---- */

static const char *const form_names[] = {"quick", "usual", "full"};
static const char *const outcome_words[] = {"passed", "failed", "left out", "not offered"};

/* --- writing --- */

/* A name of the driver's is one line. */
static void write_clean(FILE *out, const char *text) {
    for (; *text; text++)
        fputc((unsigned char)*text < ' ' || (unsigned char)*text > '~' ? '?' : *text, out);
}

static void write_proof_head(FILE *out, const struct findings *findings, const char *version) {
    const struct prove_card *card = &findings->card;
    char date[32] = "";
    struct tm calendar;
    time_t now = time(NULL);
    if (gmtime_r(&now, &calendar))
        strftime(date, sizeof date, "%Y-%m-%d", &calendar);
    fprintf(out, "vramgc proof 1\nresult %s\ncard %s\ndriver %s\nengine %u\nname ",
            findings->failed ? "failed" : "passed", card->key.card, card->key.driver,
            card->key.engine);
    write_clean(out, card->name);
    fprintf(
        out, "\npark %s\nbus %s\nmemory %zu MiB\nunmap %s\nform %s\nmade %s by vramgc %s%s\n",
        findings->park.state == STATE_DONE ? outcome_words[findings->park.outcome] : "not tried",
        card->bus, card->total_bytes >> 20, findings->unmap_waits ? PROOF_UNMAP_WAITS : "at once",
        form_names[check_form], date, version, card->simulated ? ", on a simulated device" : "");
}

static void write_result(FILE *out, const char *what, const char *name,
                         const struct result *result) {
    if (result->state != STATE_DONE)
        return;
    fprintf(out, "%s %s: %s, %lu us", what, name, outcome_words[result->outcome],
            result->ns / 1000);
    fputs(*result->said ? ": " : "", out);
    write_clean(out, result->said);
    fputc('\n', out);
}

static bool write_proof(int fd, const struct findings *findings, const char *version) {
    FILE *out = fdopen(fd, "w");
    if (!out) {
        close(fd);
        return false;
    }
    write_proof_head(out, findings, version);
    for (size_t i = 0; i < check_count; i++)
        write_result(out, "check", check_table[i].name, &findings->results[i]);
    write_result(out, "check", "park", &findings->park);
    fputs(&PROOF_END[1], out); /* the line before has ended */
    bool written = fflush(out) == 0 && fsync(fd) == 0 && !ferror(out);
    return fclose(out) == 0 && written;
}

/* False, and why: no proof that counts can be put where they lie. */
static bool proof_place(char *why, size_t capacity) {
    char folder[512];
    if (!state_folder(folder, sizeof folder))
        snprintf(why, capacity, "neither HOME nor XDG_STATE_HOME names a folder");
    else if (access(folder, F_OK) == 0 && !state_folder_is_trusted(folder))
        snprintf(why, capacity,
                 "%s: others can write there, or it is another user's; chmod go-w it, or set "
                 "XDG_STATE_HOME",
                 folder);
    else
        return true;
    return false;
}

/* False with errno; path is where it was to be. */
static bool proof_write(const struct findings *findings, const char *version, char *path,
                        size_t capacity) {
    char folder[512], beside[600];
    *path = 0;
    if (!state_folder(folder, sizeof folder) ||
        !proof_path(findings->card.key.card, path, capacity))
        return false;
    snprintf(beside, sizeof beside, "%s.new", path);
    if (!state_folder_make(folder))
        return false;
    unlink(beside); /* of a test that was killed as it wrote */
    int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    if (write_proof(fd, findings, version) && rename(beside, path) == 0)
        return true;
    unlink(beside);
    return false;
}

/* --- showing --- */

static bool is_proof(const char *name) {
    const char *ending = strrchr(name, '.');
    return ending && ending > name && strcmp(ending, ".proof") == 0;
}

/* By these lines others could tell the card from all others. */
static bool is_private(const char *line) {
    return strncmp(line, "card ", 5) == 0 || strncmp(line, "bus ", 4) == 0;
}

static bool print_proof(const char *path, bool share) {
    char line[1024];
    FILE *in = fopen(path, "re");
    while (in && fgets(line, sizeof line, in))
        if (!share || !is_private(line)) {
            line[strcspn(line, "\n")] = 0;
            write_clean(stdout, line);
            putchar('\n');
        }
    return in && fclose(in) == 0;
}

size_t proof_each(bool (*visit)(const char *path, bool share), bool share) {
    char folder[512], path[1024];
    DIR *list = state_folder(folder, sizeof folder) ? opendir(folder) : NULL;
    size_t count = 0;
    for (struct dirent *entry; list && (entry = readdir(list));) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (is_proof(entry->d_name) && visit(path, share))
            count++;
    }
    if (list)
        closedir(list);
    return count;
}

size_t proof_show(bool share) {
    return proof_each(print_proof, share);
}

static bool forget_proof(const char *path, bool share) {
    (void)share;
    return unlink(path) == 0;
}

size_t proof_forget(void) {
    return proof_each(forget_proof, false);
}

bool proof_is_of_ours(unsigned long engine) {
    return engine == VM_VERSION;
}

/* ---- the cards ---- */

static const struct prove_telling *tell;

static int not_tried(const char *why) {
    tell->not_tried(-1, why, false);
    return PROVE_NOT_RUN;
}

void prove_key(const char *card, int version, struct proof_key *key) {
    proof_key_named(card, version, VM_VERSION, key);
}

bool prove_is_answered(const struct proof_key *key, const struct prove_wish *wish) {
    struct proof proof = proof_look(key);
    return proof.state == PROOF_FAILED ||
           (proof.state == PROOF_PASSED && !(wish->park && proof.park == PARK_UNTRIED));
}

static int prove_one(int device, const char *version, const struct prove_wish *wish,
                     struct findings *findings) {
    char path[512], why[640];
    bool idle = child_look(device, findings);
    if (wish->only_unproven && prove_is_answered(&findings->card.key, wish))
        return PROVE_PASSED;
    if (!idle) {
        tell->not_tried(device, findings->card.busy, findings->card.others);
        return PROVE_NOT_RUN;
    }
    check_spare_bytes = findings->card.display ? CARD_SPARE_MIB * MEBIBYTE : 0;
    tell->begin(device, &findings->card);
    if (child_run_checks(device, findings, tell->row) && wish->park)
        park_trial_run(device, findings, tell->row);
    if (!proof_write(findings, version, path, sizeof path)) {
        snprintf(why, sizeof why, "the proof cannot be written to %s", path);
        return not_tried(why);
    }
    if (tell->end)
        tell->end(path);
    return findings->failed ? PROVE_FAILED : PROVE_PASSED;
}

static int prove_all(const struct prove_wish *wish, const char *version,
                     struct findings *findings) {
    int count = child_count_devices(findings), status = PROVE_PASSED, device = wish->device;
    if (count == 0)
        return not_tried(findings->card.busy[0] ? findings->card.busy
                                                : "the driver sees no device");
    if (device >= count)
        return not_tried("there is no such device");
    for (int i = device < 0 ? 0 : device; i < (device < 0 ? count : device + 1); i++) {
        struct findings *fresh = findings_new();
        int one = fresh ? prove_one(i, version, wish, fresh) : PROVE_NOT_RUN;
        if (fresh)
            memory_unmap(fresh, sizeof *fresh);
        status = one > status ? one : status;
    }
    return status;
}

int prove_run(const struct prove_wish *wish, const char *version,
              const struct prove_telling *telling) {
    char why[768], cannot[800];
    tell = telling;
    if (!proof_place(why, sizeof why)) { /* before the minute, not behind it */
        snprintf(cannot, sizeof cannot, "no proof can be kept: %s", why);
        return not_tried(cannot);
    }
    const char *missing = driver_load();
    struct findings *findings = missing ? NULL : findings_new();
    if (!findings)
        return not_tried(missing ? missing : "no memory");
    int status = prove_all(wish, version, findings);
    memory_unmap(findings, sizeof *findings);
    return status;
}
