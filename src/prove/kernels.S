/* kernels.S: kernels.ptx as a text of the command, which is one file wherever it is installed. */
    .section .rodata
    .global kernels_ptx
    .type kernels_ptx, @object
kernels_ptx:
    .incbin "src/prove/kernels.ptx"
    .byte 0
    .size kernels_ptx, . - kernels_ptx
    .section .note.GNU-stack, "", @progbits
