"""The pages that hold messages back, and that tell who did it: suppressed, pauses, audit."""
