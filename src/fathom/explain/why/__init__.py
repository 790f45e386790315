"""Why a pod is as it is: its whole life, one file per stage, over one `Evidence`. Pure.

    refused -> gated -> queued -> unschedulable -> not_ready -> not_serving -> placed (it runs as wanted)
                                                       displaced, finished, gone: how it ends

`pod.py` asks the stages in order; `control_plane.py` comes before them all: where fathom itself is the cause,
it says so first. `answer.py` has the answer's type, `changes.py` words the change that would help.
"""
