"""TODO: builders."""
