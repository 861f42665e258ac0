/* texts.S: files as texts of the command, which is one file wherever it is installed: the page for
 * a browser, whose scripts are one, in this order; what Prometheus and Grafana take; the kernels of
 * `vramgc prove`, and the Python of `vramgc whatif`. */
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
    text page_template, show/page/page.html
    text page_style, show/page/page.css
    text page_script, show/page/units.js, show/page/moments.js, show/page/chart.js, \
        show/page/cells.js, show/page/who.js, show/page/flame.js, show/page/page.js
    text prometheus_rules, show/prometheus-rules.yml
    text grafana_dashboard, grafana-dashboard.json
    text kernels_ptx, prove/kernels.ptx
    text replay_script, cli/replay.py
    .section .note.GNU-stack, "", @progbits
