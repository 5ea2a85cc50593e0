"""CUDA's driver library by ctypes: the functions that show what a limiter counts."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p, pointer
from functools import partial

from bench.gpu.stages import CannotError

LIBRARY = "libcuda.so.1"
MIB = 1024 * 1024
ATTACH_GLOBAL = 1
ARRAY_FLOAT32, ARRAY_WIDTH = 0x20, 1024
PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry touch_nothing(.param .u64 where)
{
  .reg .u64 %rd<2>;
  .reg .u32 %r<2>;
  ld.param.u64 %rd1, [where];
  mov.u32 %r1, 1;
  st.global.u32 [%rd1], %r1;
  ret;
}
"""
"""A kernel that writes to a given address."""


class CudaError(Exception):
    """CUDA refused; the text is its name for the error."""


class _Array(ctypes.Structure):
    _fields_ = (
        ("width", c_size_t),
        ("height", c_size_t),
        ("format", c_uint),
        ("channels", c_uint),
    )


class Cuda:
    """A process's context on the first GPU that it sees.

    Raises:
        CannotError: there is no such library, or no GPU.
    """

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise CannotError(f"{LIBRARY}: {error}") from error
        device, self._context = c_int(), c_void_p()
        try:
            self.call("cuInit", 0)
            self.call("cuDeviceGet", byref(device), 0)
            self.call("cuDevicePrimaryCtxRetain", byref(self._context), device)
            self.call("cuCtxSetCurrent", self._context)
        except (AttributeError, CudaError) as error:
            raise CannotError(f"CUDA does not start: {error}") from error

    def call(self, name: str, *arguments: object) -> None:
        """Call a function.

        Raises:
            CudaError: it returned an error.
        """
        number = getattr(self._library, name)(*arguments)
        if number:
            name_of_error = c_char_p()
            self._library.cuGetErrorName(number, byref(name_of_error))
            raise CudaError((name_of_error.value or b"").decode() or f"error {number}")

    def memory(self) -> tuple[int, int]:
        """Return the free bytes and all bytes that a program sees."""
        free, total = c_size_t(), c_size_t()
        self.call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value, total.value

    def allocate(self, kind: str, size: int) -> int:
        """Allocate by one of `KINDS` and return the address, or a handle.

        Raises:
            CudaError: there is no such memory.
        """
        return KINDS[kind](self, size)

    def set_memory(self, address: int, size: int, value: int) -> None:
        """Fill memory, and wait until that is done."""
        self.call("cuMemsetD8_v2", c_uint64(address), c_uint(value), c_size_t(size))
        self.wait()

    def writer(self, address: int) -> Callable[[], None]:
        """Return what starts a kernel that writes to an address, and does not wait for it."""
        module, function, where = c_void_p(), c_void_p(), c_uint64(address)
        self.call("cuModuleLoadData", byref(module), c_char_p(PTX))
        self.call("cuModuleGetFunction", byref(function), module, b"touch_nothing")
        parameters = (POINTER(c_uint64) * 1)(pointer(where))
        return partial(self.call, "cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, parameters, None)

    def wait(self) -> None:
        """Wait for all that was started.

        Raises:
            CudaError: as after a write to an address that is not the program's.
        """
        self.call("cuCtxSynchronize")


def _plain(name: str, cuda: Cuda, size: int, *more: object) -> int:
    address = c_uint64()
    cuda.call(name, byref(address), c_size_t(size), *more)
    return address.value


def _pitch(cuda: Cuda, size: int) -> int:
    address, pitch = c_uint64(), c_size_t()
    width = MIB
    cuda.call(
        "cuMemAllocPitch_v2",
        byref(address),
        byref(pitch),
        c_size_t(width),
        c_size_t(max(1, size // width)),
        c_uint(4),
    )
    return address.value


def _array(cuda: Cuda, size: int) -> int:
    handle = c_void_p()
    rows = max(1, size // (4 * ARRAY_WIDTH))
    wanted = _Array(ARRAY_WIDTH, rows, ARRAY_FLOAT32, 1)
    cuda.call("cuArrayCreate_v2", byref(handle), byref(wanted))
    return handle.value or 0


KINDS: dict[str, Callable[[Cuda, int], int]] = {
    "cuMemAlloc": partial(_plain, "cuMemAlloc_v2"),
    "cuMemAllocPitch": _pitch,
    "cuMemAllocManaged": lambda cuda, size: _plain("cuMemAllocManaged", cuda, size, c_uint(ATTACH_GLOBAL)),
    "cuMemAllocAsync": lambda cuda, size: _plain("cuMemAllocAsync", cuda, size, None),
    "cuArrayCreate": _array,
}
"""Ways to get memory of a GPU."""
