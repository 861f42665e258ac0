/* replay.S: replay.py as a text of the command, which is one file wherever it is installed. */
    .section .rodata
    .global replay_script
    .type replay_script, @object
replay_script:
    .incbin "src/cli/replay.py"
    .byte 0
    .size replay_script, . - replay_script
    .section .note.GNU-stack, "", @progbits
