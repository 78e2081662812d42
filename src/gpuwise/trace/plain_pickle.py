"""Reads pickles as plain data: dicts, lists, tuples, texts, bytes, numbers, booleans and None. Nothing in the file is ever
called.

Python's own unpickler imports and calls what a file names. This one supports only the opcodes that build plain data, and refuses
a pickle that uses any other. Opcodes: the standard library's `pickletools`; protocols 2 to 5.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from gpuwise.core.errors import BadFile

__all__ = ["is_pickle", "read_plain"]

_DEEPEST = 200  # marks that are open at once; a snapshot nests about ten deep
_LONGEST_NUMBER_BYTES = 16
_CALLS = {
    b"c": "GLOBAL",
    b"R": "REDUCE",
    b"b": "BUILD",
    b"i": "INST",
    b"o": "OBJ",
    b"P": "PERSID",
    b"Q": "BINPERSID",
    b"\x81": "NEWOBJ",
    b"\x92": "NEWOBJ_EX",
    b"\x93": "STACK_GLOBAL",
    b"\x82": "EXT1",
    b"\x83": "EXT2",
    b"\x84": "EXT4",
}
_PLAIN = frozenset({str, int, float, bool, bytes, type(None)})


class _Damaged(ValueError):
    """The pickle ends early or is inconsistent."""


def is_pickle(head: bytes) -> bool:
    """Return whether a file begins like a pickle of protocol 2 or newer."""
    return head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")


def read_plain(data: bytes, name: str) -> Any:
    """Return the value in a pickle. A pickle that would call or import something is refused."""
    try:
        return _Machine(data, name).run()
    except (_Damaged, struct.error, IndexError, KeyError, TypeError, UnicodeDecodeError) as fault:
        raise BadFile(
            f"'{name}' is a damaged pickle ({fault or type(fault).__name__})",
            looked_in=f"its {len(data):,} bytes",
            hint="copy the file again and check that its size matches the original, or write it again",
        ) from None


class _Machine:
    """The stack machine of the format, with one method for each opcode that makes plain data."""

    def __init__(self, data: bytes, name: str) -> None:
        self._data = data
        self._name = name
        self._at = 0
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._steps: dict[int, Callable[[], None]] = {ord(code): step for code, step in self._known().items()}

    def run(self) -> Any:
        """Execute every opcode. The most frequent ones are handled inline, because a call for each would take three times as
        long.
        """
        data, steps, stack, memo, marks = self._data, self._steps, self._stack, self._memo, self._marks
        push = stack.append
        at, end = 0, len(data)
        while at < end:
            code = data[at]
            at += 1
            if code == 0x68:  # BINGET
                push(memo[data[at]])
                at += 1
            elif code == 0x8A and at < end and data[at] <= _LONGEST_NUMBER_BYTES and at + 1 + data[at] <= end:  # LONG1
                stop = at + 1 + data[at]
                push(int.from_bytes(data[at + 1 : stop], "little", signed=True))
                at = stop
            elif code == 0x94 and len(stack) > (marks[-1] if marks else 0):  # MEMOIZE
                memo[len(memo)] = stack[-1]
            elif code == 0x7D:  # EMPTY_DICT
                push({})
            elif code == 0x4B:  # BININT1
                push(data[at])
                at += 1
            elif code == 0x4D and at + 2 <= end:  # BININT2
                push(data[at] | data[at + 1] << 8)
                at += 2
            elif code == 0x6A:  # LONG_BINGET
                push(memo[int.from_bytes(data[at : at + 4], "little")])
                at += 4
            elif code == 0x8C and at < end and at + 1 + data[at] <= end:  # SHORT_BINUNICODE
                stop = at + 1 + data[at]
                push(data[at + 1 : stop].decode("utf-8", "replace"))
                at = stop
            elif code == 0x2E:  # STOP
                if marks:
                    raise _Damaged("it ends inside a container")
                return self._pop()
            else:
                self._at = at
                step = steps.get(code)
                if step is None:
                    self._refuse(bytes((code,)))
                else:
                    step()
                at = self._at
        raise _Damaged("it has no end")

    def _refuse(self, code: bytes) -> None:
        if code in _CALLS:
            raise BadFile(
                f"'{self._name}' is a pickle that would run code ({_CALLS[code]}), so it was not read",
                looked_in=f"byte {self._at - 1:,}",
                hint="write it with torch.cuda.memory._dump_snapshot or the NCCL flight recorder, whose files are plain data",
            )
        raise _Damaged(f"unknown opcode {code!r} at byte {self._at - 1:,}")

    def _known(self) -> dict[bytes, Callable[[], None]]:
        push, take = self._stack.append, self._take
        return {
            b"\x80": lambda: self._skip(1),
            b"\x95": lambda: self._skip(8),
            b"N": lambda: push(None),
            b"\x88": lambda: push(True),
            b"\x89": lambda: push(False),
            b"K": lambda: push(take(1)[0]),
            b"M": lambda: push(int.from_bytes(take(2), "little")),
            b"J": lambda: push(int.from_bytes(take(4), "little", signed=True)),
            b"\x8a": lambda: push(self._long(take(1)[0])),
            b"\x8b": lambda: push(self._long(self._size(4))),
            b"G": lambda: push(float(struct.unpack(">d", take(8))[0])),
            b"\x8c": lambda: push(self._text(1)),
            b"X": lambda: push(self._text(4)),
            b"\x8d": lambda: push(self._text(8)),
            b"U": lambda: push(take(self._size(1)).decode("utf-8", "replace")),
            b"T": lambda: push(take(self._size(4)).decode("utf-8", "replace")),
            b"C": lambda: push(take(self._size(1))),
            b"B": lambda: push(take(self._size(4))),
            b"\x8e": lambda: push(take(self._size(8))),
            b"]": lambda: push([]),
            b"}": lambda: push({}),
            b")": lambda: push(()),
            b"(": self._mark,
            b"t": lambda: push(tuple(self._since_mark())),
            b"l": lambda: push(self._since_mark()),
            b"d": lambda: self._set({}, self._since_mark(), fresh=True),
            b"\x85": lambda: self._tuple(1),
            b"\x86": lambda: self._tuple(2),
            b"\x87": lambda: self._tuple(3),
            b"a": lambda: self._append([self._pop()]),
            b"e": lambda: self._append(self._since_mark()),
            b"s": lambda: self._set_one(),
            b"u": lambda: self._set(None, self._since_mark()),
            b"0": self._drop,
            b"1": lambda: self._since_mark().clear(),
            b"2": lambda: push(self._top()),
            b"q": lambda: self._remember(self._size(1)),
            b"r": lambda: self._remember(self._size(4)),
            b"\x94": lambda: self._remember(len(self._memo)),
            b"h": lambda: push(self._memo[self._size(1)]),
            b"j": lambda: push(self._memo[self._size(4)]),
        }

    def _take(self, count: int) -> bytes:
        at = self._at
        if count > len(self._data) - at:
            raise _Damaged("it is cut off")
        self._at = at + count
        return self._data[at : at + count]

    def _skip(self, count: int) -> None:
        self._take(count)

    def _size(self, width: int) -> int:
        return int.from_bytes(self._take(width), "little")

    def _text(self, width: int) -> str:
        return self._take(self._size(width)).decode("utf-8", "replace")

    def _long(self, width: int) -> int:
        if width > _LONGEST_NUMBER_BYTES:
            raise _Damaged(f"a number has {width:,} bytes")
        return int.from_bytes(self._take(width), "little", signed=True)

    def _mark(self) -> None:
        if len(self._marks) >= _DEEPEST:
            raise _Damaged(f"it nests deeper than {_DEEPEST} levels")
        self._marks.append(len(self._stack))

    def _since_mark(self) -> list[Any]:
        place = self._marks.pop()
        found = self._stack[place:]
        del self._stack[place:]
        return found

    def _top(self) -> Any:
        if self._marks and self._marks[-1] == len(self._stack):
            raise _Damaged("a value is missing")
        return self._stack[-1]

    def _pop(self) -> Any:
        value = self._top()
        self._stack.pop()
        return value

    def _drop(self) -> None:
        if self._marks and self._marks[-1] == len(self._stack):
            self._marks.pop()
        else:
            self._stack.pop()

    def _tuple(self, count: int) -> None:
        found = [self._pop() for _ in range(count)]
        self._stack.append(tuple(reversed(found)))

    def _append(self, values: list[Any]) -> None:
        target = self._top()
        if type(target) is not list:
            raise _Damaged("something is appended to a value that is not a list")
        target += values

    def _set_one(self) -> None:
        value = self._pop()
        self._set(None, [self._pop(), value])

    def _set(self, target: dict[Any, Any] | None, pairs: list[Any], *, fresh: bool = False) -> None:
        """Check that keys are plain values or flat tuples of them, because hashing a deeply nested tuple would exhaust the
        stack.
        """
        into = self._top() if target is None else target
        if type(into) is not dict or len(pairs) % 2:
            raise _Damaged("an entry is added to a value that is not a dict")
        keys = pairs[::2]
        if not {type(key) for key in keys} <= _PLAIN:
            parts = [part for key in keys for part in (key if type(key) is tuple else (key,))]
            if not {type(part) for part in parts} <= _PLAIN:
                raise _Damaged("a key is not a plain value")
        into.update(zip(keys, pairs[1::2], strict=True))
        if fresh:
            self._stack.append(into)

    def _remember(self, number: int) -> None:
        self._memo[number] = self._top()
