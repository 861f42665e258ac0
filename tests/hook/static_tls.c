/* static_tls.c: a library with much thread-local memory, as some of a web UI have: the C library
 * takes it from the stack of each thread. */
__attribute__((visibility("default"))) __thread volatile char static_tls[KIB << 10];
