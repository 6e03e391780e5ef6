"""Values that every room uses: names, quantities, reasons, findings and errors."""
