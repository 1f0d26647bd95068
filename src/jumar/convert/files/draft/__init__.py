"""What all kinds of files share: `FileKind`, the draft of the edits, device words, environment variables."""
