"""The artefact a run leaves: a folder of rows and tensors that survives a kill."""
