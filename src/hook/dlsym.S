/* dlsym.S: dlsym, overridden by a tail jump. glibc finds out by the return address who asks, for
 * RTLD_NEXT and RTLD_DEFAULT; a call instead of a jump would make every such question come from us,
 * and a library would find its own function again. C compilers do not promise tail calls. */
    .text
    .globl dlsym
    .type dlsym, %function
#if defined(__x86_64__)
dlsym:
    .cfi_startproc
    endbr64
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    subq $8, %rsp                   /* keeps the stack aligned for the call */
    .cfi_adjust_cfa_offset 8
    movq 24(%rsp), %rdx             /* the return address: who asks */
    leaq 8(%rsp), %rcx              /* the name, which may be replaced */
    call hook_dlsym
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    testq %rax, %rax
    jnz 1f
    movq hook_real_dlsym(%rip), %rax
    jmp *%rax
1:  ret
    .cfi_endproc
#elif defined(__aarch64__)
dlsym:
    .cfi_startproc
    stp x29, x30, [sp, -32]!
    .cfi_def_cfa_offset 32
    .cfi_offset 29, -32
    .cfi_offset 30, -24
    stp x0, x1, [sp, 16]
    mov x29, sp
    mov x2, x30                     /* the return address: who asks */
    add x3, sp, 24                  /* the name, which may be replaced */
    bl hook_dlsym
    mov x16, x0
    ldp x0, x1, [sp, 16]
    ldp x29, x30, [sp], 32
    .cfi_def_cfa_offset 0
    .cfi_restore 29
    .cfi_restore 30
    cbnz x16, 1f
    adrp x16, hook_real_dlsym
    ldr x16, [x16, :lo12:hook_real_dlsym]
    br x16
1:  mov x0, x16
    ret
    .cfi_endproc
#else
#error "vramgc knows x86-64 and aarch64"
#endif
    .size dlsym, .-dlsym
    .section .note.GNU-stack, "", %progbits
