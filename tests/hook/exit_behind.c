/* exit_behind.c: another library that stands in front of _exit, as sanitizers do: the status is one
 * more. */
#include <sys/syscall.h>
#include <unistd.h>

_Noreturn void _exit(int status) {
    syscall(SYS_exit_group, status + 1);
    __builtin_unreachable();
}
