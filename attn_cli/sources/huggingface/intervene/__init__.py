"""Running a model again with heads silenced or tokens hidden: what its answer rests on."""
