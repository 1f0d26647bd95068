"""A progress bar that writes to standard output by itself."""
import sys


def progress_bar(done, total, text):
    sys.stdout.write('[%d/%d] %s\n' % (done + 1, total, text))
    sys.stdout.flush()
