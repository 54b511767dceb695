"""The stages as the settings say: a night, several nights, a comparison of models.

In: Settings. Out: summaries, and through the stages every published table.
May import every room but cli. Nothing here prints: results and progress go to an `Events` object.
"""
