/* dlsym.S: dlsym, overridden by a tail jump. glibc finds out by the return address who asks, for
 * RTLD_NEXT and RTLD_DEFAULT; a call instead of a jump would make every such question come from us,
 * and a library would find its own function again. C compilers do not promise tail calls. */
    .text
    .globl dlsym
    .type dlsym, %function
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
    .size dlsym, .-dlsym
    .section .note.GNU-stack, "", %progbits
