/* script.S: soak.py as a text of the command, which is one file wherever it is installed. */
    .section .rodata
    .global python_script
    .type python_script, @object
python_script:
    .incbin "src/prove/soak.py"
    .byte 0
    .size python_script, . - python_script
    .section .note.GNU-stack, "", @progbits
