"""Running a model again with heads ablated or tokens hidden: what its answer rests on."""
