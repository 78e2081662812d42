"""A GPU reports errors or has gone silent.

## What it sees
Across many GPUs (`gpuwise watch --prometheus`), this check looks for the driver's last error number (Xid) and for GPUs
that sent data at the beginning of the window but not at its end.

## Why it costs time
A GPU that has fallen off the bus does no work at all, and a job that used it has ended or hangs. A reset clears memory
errors.

## What to do
Read the whole message with `dmesg` on the host. For Xid 79, 74, 48, 94 and 95, take the host out of service, reset the
GPU, and check power and seating. Xid 31, 13 and 43 come from programs far more often than from hardware
([NVIDIA's catalogue](https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html)).

## How sure
Confidence is high if the number changed within the window. It is low if the number was there from the beginning: the
exporter keeps the last number until the driver is loaded again, so the number may be old. It is medium for silence,
which may also be caused by the exporter or the network.
"""

from __future__ import annotations

from gpuwise.diagnose.fleet import Member
from gpuwise.diagnose.types import Finding, Gain

__all__ = ["CODE", "check_member"]

CODE = "gpu_fault"
_MOST = 20.0
_KNOWN = {
    13: "a fault in a program's kernel",
    31: "a program accessed memory that is not its own",
    43: "a program's work was stopped",
    45: "a program's work was cleaned up",
    48: "a memory error that cannot be corrected",
    63: "a memory row is marked for replacement",
    64: "a memory row could not be replaced",
    74: "NVLink",
    79: "the GPU has fallen off the bus",
    94: "a contained memory error",
    95: "an uncontained memory error",
    119: "the processor inside the GPU does not respond",
}
_OF_PROGRAMS = (13, 31, 43, 45)


def check_member(member: Member) -> Finding | None:
    """Find an error number, or silence."""
    gpu, lines = member.vitals, []
    if member.xid:
        what = _KNOWN.get(member.xid, "see NVIDIA's list of Xid errors")
        lines.append(f"Xid {member.xid} ({what}), " + ("new during this time" if member.xid_new else "from before this time"))
    if member.silent_s > 0:
        lines.append(f"it has not reported for {member.silent_s / 60:.0f} min")
    if not lines:
        return None
    gone = member.silent_s > 0 or (member.xid_new and member.xid not in _OF_PROGRAMS)
    return Finding(
        code=CODE,
        title=f"{gpu.name} reports errors" if member.xid else f"{gpu.name} no longer reports",
        seconds_per_step=0.0,
        share_fraction=1.0 if gone else 0.0,
        gain=Gain(low=1.0, high=_MOST if gone else 1.0),
        confidence="high" if member.xid and member.xid_new else "medium" if member.silent_s > 0 else "low",
        evidence=tuple(lines),
        remedy="read `dmesg` on the host; for hardware errors, take the host out of service and reset the GPU",
        verify="after a reset, the error should be gone and the GPU should report again",
    )
