"""A GPU reports errors or has stopped reporting.

## What it detects
Across many GPUs (`gpuwise watch --prometheus`), this check looks for the driver's last error number (Xid) and for GPUs
that sent data at the beginning of the window but not at its end.

## Why it costs time
A GPU that has fallen off the bus does no work at all, and any job that was using it has ended or hung. Memory errors persist
until the GPU is reset.

## What to do
Read the whole message with `dmesg` on the host. For Xid 79, 74, 48, 94 and 95, take the host out of service, reset the
GPU, and check power and seating. Xid 31, 13 and 43 come from programs far more often than from hardware ([NVIDIA's
catalogue](https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html)).

## Confidence
Confidence is high if the number changed within the window. It is low if the number was already reported at the
beginning, because the exporter keeps the last number until the driver is reloaded. It is medium if a GPU has stopped
reporting, because the exporter or the network may be the cause.
"""

from __future__ import annotations

from gpuwise.diagnose.fleet import Member
from gpuwise.diagnose.types import Finding, Gain

__all__ = ["CODE", "check_member"]

CODE = "gpu_fault"
_MOST = 20.0
_KNOWN = {
    13: "a fault in an application's kernel",
    31: "an application accessed invalid memory",
    43: "an application's work was stopped",
    45: "an application's work was cleaned up",
    48: "an uncorrectable memory error",
    63: "a memory row is marked for replacement",
    64: "a memory row could not be replaced",
    74: "an NVLink error",
    79: "the GPU has fallen off the bus",
    94: "a contained memory error",
    95: "an uncontained memory error",
    119: "the GPU's own processor does not respond",
}
_OF_PROGRAMS = (13, 31, 43, 45)


def check_member(member: Member) -> Finding | None:
    """Find an error number, or silence."""
    gpu, lines = member.vitals, []
    if member.xid:
        what = _KNOWN.get(member.xid, "see NVIDIA's list of Xid errors")
        lines.append(f"Xid {member.xid} ({what}), " + ("new in this window" if member.xid_new else "from before this window"))
    if member.silent_s > 0:
        lines.append(f"no reports for {member.silent_s / 60:.0f} min")
    if not lines:
        return None
    gone = member.silent_s > 0 or (member.xid_new and member.xid not in _OF_PROGRAMS)
    return Finding(
        code=CODE,
        title=f"{gpu.name} reports errors" if member.xid else f"{gpu.name} has stopped reporting",
        seconds_per_step=0.0,
        share_fraction=1.0 if gone else 0.0,
        gain=Gain(low=1.0, high=_MOST if gone else 1.0),
        confidence="high" if member.xid and member.xid_new else "medium" if member.silent_s > 0 else "low",
        evidence=tuple(lines),
        remedy="read `dmesg` on the host; for hardware errors, take the host out of service and reset the GPU",
        verify="after the reset, the error should be gone and the GPU should report again",
    )
