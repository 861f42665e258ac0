/* page.S: files as texts of the command, which is one file wherever it is installed: the page for a
 * browser, whose scripts are one, in this order, and what Prometheus and Grafana take. */
    .macro text name, files:vararg
    .global \name
    .type \name, @object
\name:
    .irp file, \files
    .incbin "\file"
    .endr
    .byte 0
    .size \name, . - \name
    .endm

    .section .rodata
    text page_template, page/page.html
    text page_style, page/page.css
    text page_script, page/units.js, page/moments.js, page/chart.js, \
        page/cells.js, page/who.js, page/flame.js, page/page.js
    text prometheus_rules, prometheus-rules.yml
    text grafana_dashboard, grafana-dashboard.json
    .section .note.GNU-stack, "", @progbits
