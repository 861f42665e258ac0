/* script.S: soak.py and kernels.ptx as texts of the command, which is one file wherever it is
 * installed. */
    .section .rodata
    .macro text name, file
    .global \name
    .type \name, @object
\name:
    .incbin "\file"
    .byte 0
    .size \name, . - \name
    .endm
    text python_script, "src/prove/soak.py"
    text kernels_ptx, "src/prove/kernels.ptx"
    .section .note.GNU-stack, "", @progbits
