"""Pictures, the self-contained HTML report, and the measures in ``result.json``.

    record.Run ─▶ measure.measure ─▶ record.Result ─▶ compare.table (terminal)
         └──────────────────────────────────┴───────▶ page.render (report.html)

`live` stands apart: it shows a demo while it runs.
"""
