"""What the processes that read data need, and what they do when the job is to stop: they go on until it is saved."""

import multiprocessing
import os
import signal
import sys
import tempfile
import threading

SOCKET = 107 - len("/pymp-xxxxxxxx/listener-xxxxxxxx")  # letters that a socket's directory may have


def require_sockets() -> None:
    """Raise ValueError where batches could not be handed over: without a word they would never arrive."""
    folder = tempfile.gettempdir()
    if sys.platform == "linux" and len(os.fsencode(folder)) > SOCKET:
        raise ValueError(
            f"TMPDIR={folder} has more than {SOCKET} letters, too many for the sockets of workers: "
            "set a shorter one, or workers=0"
        )


def outlive(worker: int) -> None:
    """For ``DataLoader(worker_init_fn=outlive)``.  Ctrl-C, a scheduler or a service manager tells each process of a job
    to stop, and a worker that obeys takes the batch that is being waited for with it.  So the process that trains alone
    obeys, and ends its workers."""
    for name in ("SIGINT", "SIGUSR1"):
        if name in signal.Signals.__members__:
            signal.signal(signal.Signals[name], signal.SIG_IGN)
    if sys.platform == "linux":  # the only one where Python says who sent a signal
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=_obey_parent, daemon=True).start()


def _obey_parent() -> None:
    """SIGTERM by the process that this one reads for is its way of ending it."""
    parent = multiprocessing.parent_process()
    while sys.platform == "linux":
        if parent is None or signal.sigwaitinfo({signal.SIGTERM}).si_pid == parent.pid:
            os._exit(0)
