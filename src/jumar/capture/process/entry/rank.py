"""Started by a launcher in the place of the user's script, whose words follow: runs it as `child` does."""

import sys

if not getattr(sys.flags, "safe_path", False):
    del sys.path[0]  # this file's folder; the script's comes in its place
_HOME = __file__.rsplit("jumar", 1)[0].rstrip("/\\")
if _HOME not in sys.path:
    sys.path.append(_HOME)

if __name__ == "__main__":
    import sysconfig

    from jumar.capture.process.child import main

    # `torch.distributed.launch` puts an argument of its own first; it belongs to the script.
    own = [word for word in sys.argv[1:2] if word.startswith(("--local-rank=", "--local_rank="))]
    words = sys.argv[1 + len(own) :]
    at = 2 if words[:1] == ["-m"] else 1
    sys.path.insert(0, sysconfig.get_path("stdlib"))  # `child` replaces the first entry by the script's folder
    sys.exit(main([*words[:at], *own, *words[at:]]))
