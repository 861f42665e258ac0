/* page.S: what is in page/ as texts of the command, which is one file wherever it is installed. The
 * scripts are one, in this order. */
    .macro text name, files:vararg
    .global page_\name
    .type page_\name, @object
page_\name:
    .irp file, \files
    .incbin "src/show/page/\file"
    .endr
    .byte 0
    .size page_\name, . - page_\name
    .endm

    .section .rodata
    text template, page.html
    text style, page.css
    text script, units.js, moments.js, chart.js, cells.js, who.js, flame.js, page.js
    .section .note.GNU-stack, "", @progbits
