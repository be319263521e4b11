"""Our own objects as the kit reads them, and what the record of a compute Pod says."""
