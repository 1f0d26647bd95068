"""The rules of `jumar advise`, one a file; `find(run)` goes through the steps of a run and yields findings."""
