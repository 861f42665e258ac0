/* stubs.S: in front of all that the driver has and hooks.def has not. While another process parks
 * this one at rest a stub counts the call, before the driver has it, and by that the program is
 * woken (cli/park_idle.c). It must change nothing: no argument, not the stack, not who called. */
#include "stubs.h"

    .text
    .globl hook_stubs, hook_stub_unbound
    .hidden hook_stubs, hook_stub_unbound, hook_stub_targets, hook_stub_bind, store_current
    .set number, 0

#if defined(__x86_64__)
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
#elif defined(__aarch64__)
.macro stub name
    .balign STUB_BYTES
    .ifnb \name
    .globl \name
    .type \name, %function
\name:
    .endif
    hint #34                        /* bti c */
    .rept 4
    nop
    .endr
    adrp x16, store_current
    ldr x16, [x16, :lo12:store_current]
    ldr x17, [x16, STUB_PARKER]
    cbnz x17, 1f
2:  movz w17, number
    adrp x16, hook_stub_targets + 8 * number
    ldr x16, [x16, :lo12:hook_stub_targets + 8 * number]
    br x16
1:  add x16, x16, STUB_ENTERED
3:  ldxr x17, [x16]
    add x17, x17, 1
    stxr w15, x17, [x16]
    cbnz w15, 3b
    b 2b
    .set number, number + 1
.endm

/* The first call by name: w17 is the number of the stub. */
    .type hook_stub_unbound, %function
hook_stub_unbound:
    .cfi_startproc
    hint #34
    stp x29, x30, [sp, -224]!
    .cfi_def_cfa_offset 224
    .cfi_offset 29, -224
    .cfi_offset 30, -216
    mov x29, sp
    stp x0, x1, [sp, 16]
    stp x2, x3, [sp, 32]
    stp x4, x5, [sp, 48]
    stp x6, x7, [sp, 64]
    str x8, [sp, 80]
    stp q0, q1, [sp, 96]
    stp q2, q3, [sp, 128]
    stp q4, q5, [sp, 160]
    stp q6, q7, [sp, 192]
    mov w0, w17
    bl hook_stub_bind
    mov x16, x0
    ldp q6, q7, [sp, 192]
    ldp q4, q5, [sp, 160]
    ldp q2, q3, [sp, 128]
    ldp q0, q1, [sp, 96]
    ldr x8, [sp, 80]
    ldp x6, x7, [sp, 64]
    ldp x4, x5, [sp, 48]
    ldp x2, x3, [sp, 32]
    ldp x0, x1, [sp, 16]
    ldp x29, x30, [sp], 224
    .cfi_def_cfa_offset 0
    .cfi_restore 29
    .cfi_restore 30
    br x16
    .cfi_endproc
#else
#error "vramgc knows x86-64 and aarch64"
#endif

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
