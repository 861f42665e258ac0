/* stubs.S: in front of all that the driver has and hooks.def has not. While another process parks
 * this one at rest a stub counts the call, before the driver has it, and by that the program is
 * woken (cli/park_idle.c). It must change nothing: no argument, not the stack, not who called. */
#include "stubs.h"

    .text
    .globl hook_stubs, hook_stub_unbound
    .hidden hook_stubs, hook_stub_unbound, hook_stub_targets, hook_stub_bind, store_current
    .set number, 0

/* Room for those who rewrite the first bytes, as in driver*.c. */
.macro stub name
    .balign STUB_BYTES
    .ifnb \name
    .globl \name
    .type \name, %function
\name:
    .endif
    endbr64
    .fill 16, 1, 0x90
    movq store_current(%rip), %r11
    cmpq $0, STUB_PARKER(%r11)
    jne 1f
2:  movl $number, %r11d
    jmp *hook_stub_targets + 8 * number(%rip)
1:  lock incq STUB_ENTERED(%r11)
    jmp 2b
    .set number, number + 1
.endm

/* The first call by name: r11 is the number of the stub. All that can hold arguments is kept. */
    .type hook_stub_unbound, %function
hook_stub_unbound:
    .cfi_startproc
    endbr64
    pushq %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbp, 0
    movq %rsp, %rbp
    .cfi_def_cfa_register %rbp
    andq $-16, %rsp
    subq $176, %rsp
    .irp at, 0, 1, 2, 3, 4, 5, 6, 7
    movups %xmm\at, 16 * \at(%rsp)
    .endr
    movq %rdi, 128(%rsp)
    movq %rsi, 136(%rsp)
    movq %rdx, 144(%rsp)
    movq %rcx, 152(%rsp)
    movq %r8, 160(%rsp)
    movq %r9, 168(%rsp)
    movl %r11d, %edi
    call hook_stub_bind
    movq %rax, %r11
    .irp at, 0, 1, 2, 3, 4, 5, 6, 7
    movups 16 * \at(%rsp), %xmm\at
    .endr
    movq 128(%rsp), %rdi
    movq 136(%rsp), %rsi
    movq 144(%rsp), %rdx
    movq 152(%rsp), %rcx
    movq 160(%rsp), %r8
    movq 168(%rsp), %r9
    leave
    .cfi_def_cfa %rsp, 8
    jmp *%r11
    .cfi_endproc

/* No frames: a stub is left as it was entered. */
    .balign STUB_BYTES
hook_stubs:
    .cfi_startproc
#define STUB(name) stub name;
#include "stubs.def"
    .rept STUB_SPARE
    stub
    .endr
    .cfi_endproc
    .section .note.GNU-stack, "", %progbits
