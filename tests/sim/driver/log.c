/* What the simulated device has to say: a log on request, and always the errors that the program
 * under test made. It never returns an error of its own. */
#include "driver.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "simgpu.h"

enum { LINE_BYTES = 600 };

static struct {
    atomic_ulong faults;
    atomic_int file; /* Descriptor of LOG_FILE plus one; 0 = not opened yet. */
} state;

static int log_descriptor(void) {
    int file = atomic_load(&state.file);
    if (file != 0)
        return file - 1;
    int opened = STDERR_FILENO;
    if (sim.config.log_file != NULL)
        opened = open(sim.config.log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (opened < 0) {
        fprintf(stderr, "simgpu: SIMGPU_LOG_FILE=%s cannot be written\n", sim.config.log_file);
        opened = STDERR_FILENO;
    }
    atomic_store(&state.file, opened + 1);
    return opened;
}

static void write_line(int file, const char *head, const char *format, va_list arguments) {
    char line[LINE_BYTES];
    int used = snprintf(line, sizeof line, "%s", head);
    used += vsnprintf(line + used, sizeof line - (size_t)used, format, arguments);
    if (used > LINE_BYTES - 2)
        used = LINE_BYTES - 2;
    line[used] = '\n';
    if (write(file, line, (size_t)used + 1) < 0)
        return; /* Nowhere left to say it. */
}

void sim_log(int level, const char *format, ...) {
    if (sim.config.log_level < level)
        return;
    char head[40];
    va_list arguments;
    snprintf(head, sizeof head, "simgpu %ld: ", (long)syscall(SYS_gettid));
    va_start(arguments, format);
    write_line(log_descriptor(), head, format, arguments);
    va_end(arguments);
}

void sim_fault(const char *format, ...) {
    va_list arguments;
    atomic_fetch_add(&state.faults, 1);
    va_start(arguments, format);
    write_line(STDERR_FILENO, "simgpu: ERROR ", format, arguments);
    va_end(arguments);
    if (sim.config.strict_abort)
        abort();
}

unsigned long simgpu_errors(void) {
    return atomic_load(&state.faults);
}

int sim_unsupported(const char *name) {
    CUresult result = sim_begin(NEED_NOTHING);
    if (result != CUDA_SUCCESS)
        return (int)result;
    sim_log(1, "%s is not simulated", name);
    result = fail_code(name, __builtin_return_address(0)); /* the stub: who calls it is not known */
    return (int)sim_end(name, result != CUDA_SUCCESS ? result : CUDA_ERROR_NOT_SUPPORTED);
}
