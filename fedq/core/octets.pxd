"""Integers in network order, for the compiled twins: read from and written to plain memory.

Nothing here looks at bounds: whoever calls has checked that the bytes are there.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t


cdef inline uint32_t read_u16(const uint8_t* at) noexcept nogil:
    """A short."""
    return (<uint32_t>at[0] << 8) | at[1]


cdef inline uint32_t read_u32(const uint8_t* at) noexcept nogil:
    """A long."""
    return (
        (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]
    )


cdef inline uint64_t read_u64(const uint8_t* at) noexcept nogil:
    """A long-long."""
    return (<uint64_t>read_u32(at) << 32) | read_u32(at + 4)


cdef inline void write_u16(uint8_t* at, uint32_t value) noexcept nogil:
    """A short; what is above 16 bits is cut off."""
    at[0] = <uint8_t>(value >> 8)
    at[1] = <uint8_t>value


cdef inline void write_u32(uint8_t* at, uint32_t value) noexcept nogil:
    """A long."""
    at[0] = <uint8_t>(value >> 24)
    at[1] = <uint8_t>(value >> 16)
    at[2] = <uint8_t>(value >> 8)
    at[3] = <uint8_t>value


cdef inline void write_u64(uint8_t* at, uint64_t value) noexcept nogil:
    """A long-long."""
    write_u32(at, <uint32_t>(value >> 32))
    write_u32(at + 4, <uint32_t>value)
