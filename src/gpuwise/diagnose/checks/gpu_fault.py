"""A GPU reports errors, or is not heard of any more.

## What it sees
Many GPUs at once (`gpuwise watch --prometheus`): the driver's last error number (Xid), and GPUs that told something at the
beginning of the window and nothing at its end.

## Why it costs time
Of a GPU that has fallen off the bus, all of it; a job that used it has ended or hangs. Memory errors are mended by a reset.

## What to do
`dmesg` on the host has the whole message. Xid 79, 74, 48, 94, 95: take the host out of service, reset, look at power and seating;
31, 13 and 43 come from programs far more often than from hardware
([NVIDIA's catalogue](https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html)).

## How sure
High where the number changed within the window. The exporter keeps the last number until the driver is loaded again, so one that
stands from the beginning may be old: low. Silence may be the exporter's or the network's: medium.
"""

from __future__ import annotations

from gpuwise.diagnose.fleet import Member
from gpuwise.diagnose.types import Finding, Gain

__all__ = ["CODE", "check_member"]

CODE = "gpu_fault"
_MOST = 20.0
_KNOWN = {
    13: "a fault in a kernel of a program",
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
    """An error number, or silence."""
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
