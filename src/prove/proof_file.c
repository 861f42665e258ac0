/* proof_file.c: see proof_file.h. Besides, it shows proofs and forgets them. Its head is what the
 * library reads: it must stay within PROOF_HEAD_BYTES. */
#include "prove/proof_file.h"

#include "base/state_folder.h"
#include "prove/with_torch.h"
#include "vm/version.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static const char *const form_names[] = {"quick", "usual", "full"};
static const char *const outcome_words[] = {"passed", "failed", "left out", "not offered"};

/* --- writing --- */

/* A name of the driver's is one line. */
static void write_clean(FILE *out, const char *text) {
    for (; *text; text++)
        fputc((unsigned char)*text < ' ' || (unsigned char)*text > '~' ? '?' : *text, out);
}

static void write_head(FILE *out, const struct findings *findings, const char *version) {
    const struct card *card = &findings->card;
    char date[32] = "";
    struct tm calendar;
    time_t now = time(NULL);
    if (gmtime_r(&now, &calendar))
        strftime(date, sizeof date, "%Y-%m-%d", &calendar);
    fprintf(out, "vramgc proof 1\nresult %s\ncard %s\ndriver %s\nengine %u\nname ",
            findings->failed ? "failed" : "passed", card->key.card, card->key.driver,
            card->key.engine);
    write_clean(out, card->name);
    fprintf(out, "\npark %s\nbus %s\nmemory %zu MiB\nunmap %s\nform %s\nmade %s by vramgc %s%s\n",
            findings->park.state == STATE_DONE ? outcome_words[findings->park.outcome]
                                               : "not tried",
            card->bus, card->total_bytes >> 20,
            findings->costs.unmap_waits ? PROOF_UNMAP_WAITS : "at once", form_names[check_form],
            date, version, card->simulated ? ", on a simulated device" : "");
}

static void write_result(FILE *out, const char *what, const char *name,
                         const struct result *result) {
    if (result->state != STATE_DONE)
        return;
    fprintf(out, "%s %s: %s, %llu us", what, name, outcome_words[result->outcome],
            (unsigned long long)result->ns / 1000);
    fputs(*result->said ? ": " : "", out);
    write_clean(out, result->said);
    fputc('\n', out);
}

static void write_results(FILE *out, const struct findings *findings) {
    for (size_t i = 0; i < check_count; i++)
        write_result(out, "check", check_table[i].name, &findings->results[i]);
    write_result(out, "check", "park", &findings->park);
    for (size_t i = 0; i < PYTHON_DOORS; i++)
        write_result(out, "python", python_doors[i], &findings->python[i]);
}

/* us: median, 99th percentile. */
static void write_costs(FILE *out, const struct costs *costs) {
    for (size_t i = 0; i < costs->count; i++) {
        const struct cost *cost = &costs->list[i];
        fprintf(out, "cost %s %u MiB x %u%s%s: %.2f us, p99 %.2f\n", cost->call, cost->mib,
                cost->handles, *cost->beside ? " beside " : "", cost->beside,
                (double)cost->median_ns / 1e3, (double)cost->high_ns / 1e3);
    }
}

static bool write_all(int fd, const struct findings *findings, const char *version) {
    FILE *out = fdopen(fd, "w");
    if (!out) {
        close(fd);
        return false;
    }
    write_head(out, findings, version);
    write_results(out, findings);
    write_costs(out, &findings->costs);
    fputs(&PROOF_END[1], out); /* the line before has ended */
    bool written = fflush(out) == 0 && fsync(fd) == 0 && !ferror(out);
    return fclose(out) == 0 && written;
}

bool proof_place(char *why, size_t capacity) {
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

bool proof_write(const struct findings *findings, const char *version, char *path,
                 size_t capacity) {
    char folder[512], beside[600];
    *path = 0;
    if (!state_folder(folder, sizeof folder) ||
        !proof_path(findings->card.key.card, path, capacity))
        return false;
    snprintf(beside, sizeof beside, "%s.XXXXXX", path);
    if (!state_folder_make(folder))
        return false;
    int fd = mkostemp(beside, O_CLOEXEC); /* readable by us only */
    if (fd < 0)
        return false;
    if (write_all(fd, findings, version) && rename(beside, path) == 0)
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

static bool show(const char *path, bool share) {
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
    return proof_each(show, share);
}

static bool forget(const char *path, bool share) {
    (void)share;
    return unlink(path) == 0;
}

size_t proof_forget(void) {
    return proof_each(forget, false);
}

bool proof_is_of_ours(unsigned long engine) {
    return engine == VM_VERSION;
}
