"""The invoices: PDFs, and the fonts that they embed."""
