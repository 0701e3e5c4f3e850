# cython: language_level=3, binding=True, embedsignature=False, auto_pickle=False
"""Reading records fast: the compiled twin of message.py, record_batch.py, pure_message_set.py and pure_cursor.py.

Those say what is to be done and why; this does the same, to the byte and to the word of its errors, and the tests run
over both. Where it is built, message_set.py and cursor.py take from here.

Rules: bytes are looked at through pointers, so each look stands behind a comparison with what is left. Numbers are
compared as lengths left, never as positions added up, which might overflow. Sums of stored numbers wrap at 64 bits, as
Java's do. Whatever may run Python code (a decompression, an allocation that collects garbage) may let another thread
run: what was decided before it is looked at again after it.
"""

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_CheckSignals
from cpython.object cimport PyObject_GenericGetAttr
from cpython.ref cimport PyObject
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from os import strerror
from sys import intern
from types import GenericAlias

from fetcher.columns import Columns
from fetcher.compression import LZ4, decompress, limit_for
from fetcher.errors import (
    DecompressionLimitException,
    InvalidMessageException,
    KafkaException,
    UnsupportedCodecException,
)
from fetcher.message import corrupt, impossible_size, invalid_offset

cdef extern from "poll.h" nogil:
    struct pollfd:
        int fd
        short events
        short revents
    int POLLIN
    int poll(pollfd *watched, unsigned long number, int timeout_ms)

cdef extern from "sys/socket.h" nogil:
    ssize_t recv(int descriptor, void *target, size_t size, int flags)
    ssize_t send(int descriptor, const void *source, size_t size, int flags)
    int MSG_NOSIGNAL

cdef extern from "Python.h":
    ctypedef struct TypeObject "PyTypeObject":
        void *tp_iternext
    PyObject *new_bytes "PyBytes_FromStringAndSize"(const char *content, Py_ssize_t size) except NULL
    char *content_of "PyBytes_AS_STRING"(PyObject *owned) nogil
    int resize_bytes "_PyBytes_Resize"(PyObject **owned, Py_ssize_t size) except -1
    void release "Py_XDECREF"(PyObject *owned)

cdef extern from "_checksums.h":
    void checksums_prepare(int at_most)
    uint32_t crc32_of(const uint8_t *data, size_t size) nogil
    uint32_t crc32c_of(const uint8_t *data, size_t size) nogil

DEEPEST_NESTING = 8

cdef enum:
    ENTRY_OVERHEAD = 12
    MINIMUM_MESSAGE_SIZE = 14
    SMALLEST_ENTRY = 26
    MINIMUM_BATCH_SIZE = 49
    BATCH_HEADER_SIZE = 61
    BATCH_CHECKED_FROM = 21
    CODEC_BITS = 0x07
    CONTROL_BIT = 0x20
    APPEND_TIME = 1
    VERIFY_AHEAD = 64 * 1024  # bytes whose checksums are looked at in one go, and then found in the cache by those who read them
    MOST_NESTING = 8
    SIZE_PREFIX = 4
    ALL_INSTRUCTIONS = 2  # those that the processor has
    MOST_KEPT_IN_VAIN = 64 * 1024  # bytes of an answer that a set may keep in memory beside its own

cdef enum Found:
    RECORD = 1
    NO_RECORD = 0        # something else comes: the end, a batch, a compressed set, an error
    CUT_SHORT = -1
    TOO_LONG = -2        # a number of more than 64 bits

cdef int64_t LARGEST_OFFSET = 0x7FFFFFFFFFFFFFFF


# --- numbers ---


cdef inline uint32_t uint32_at(const uint8_t *at) noexcept nogil:
    return (<uint32_t> at[0] << 24) | (<uint32_t> at[1] << 16) | (<uint32_t> at[2] << 8) | at[3]


cdef inline int32_t int32_at(const uint8_t *at) noexcept nogil:
    return <int32_t> uint32_at(at)


cdef inline int64_t int64_at(const uint8_t *at) noexcept nogil:
    return <int64_t> ((<uint64_t> uint32_at(at) << 32) | uint32_at(at + 4))


cdef inline int64_t wrapping_sum(int64_t one, int64_t other) noexcept nogil:
    return <int64_t> (<uint64_t> one + <uint64_t> other)


cdef inline int64_t unzigzag(uint64_t number) noexcept nogil:
    return <int64_t> ((number >> 1) ^ (0 - (number & 1)))


cdef int read_varint(const uint8_t *data, Py_ssize_t length, Py_ssize_t *position, int64_t *number) noexcept nogil:
    """RECORD, CUT_SHORT if the data ends within it, or TOO_LONG."""
    cdef Py_ssize_t at = position[0]
    cdef uint64_t collected = 0
    cdef int shift = 0
    cdef uint8_t byte
    while True:
        if at >= length:
            return CUT_SHORT
        byte = data[at]
        at += 1
        collected |= <uint64_t> (byte & 0x7F) << shift
        if byte < 0x80:
            position[0] = at
            number[0] = unzigzag(collected)
            return RECORD
        shift += 7
        if shift == 70:
            return TOO_LONG


cdef object number_too_long():
    return InvalidMessageException("A number in a message batch is longer than 64 bits")


cdef object batch_cut_short(int64_t first_offset):
    return InvalidMessageException(f"Message batch at offset {first_offset} is shorter than its messages")


# --- where a key, a value or headers are ---


cdef struct Span:
    Py_ssize_t start
    Py_ssize_t size     # negative: null


cdef int field_of_legacy(
    const uint8_t *data, Py_ssize_t start, Py_ssize_t end, int magic, bint wants_value, Span *found
) noexcept nogil:
    """RECORD, or CUT_SHORT if it does not lie within start and end."""
    cdef Py_ssize_t at = start + (14 if magic else 6)
    cdef int32_t size
    if end - at < 4:
        return CUT_SHORT
    size = int32_at(data + at)
    at += 4
    if wants_value:
        if size > 0:
            if size > end - at:
                return CUT_SHORT
            at += size
        if end - at < 4:
            return CUT_SHORT
        size = int32_at(data + at)
        at += 4
    if size > end - at:
        return CUT_SHORT
    found.start = at
    found.size = size
    return RECORD


cdef int next_field_of_record(
    const uint8_t *data, Py_ssize_t length, Py_ssize_t end, Py_ssize_t *position, Span *found
) noexcept nogil:
    """The field at a position, which moves behind it. `length` is that of all data: a number may try to leave."""
    cdef int64_t size
    cdef int outcome = read_varint(data, length, position, &size)
    if outcome != RECORD:
        return outcome
    if position[0] > end:
        return CUT_SHORT
    found.start = position[0]
    found.size = -1
    if size >= 0:
        if size > end - position[0]:
            return CUT_SHORT
        found.size = size
        position[0] += size
    return RECORD


cdef int value_of_record(
    const uint8_t *data, Py_ssize_t length, Py_ssize_t start, Py_ssize_t end, Span *found
) noexcept nogil:
    """The value alone, for which a key has to be passed by but not to be whole."""
    cdef int64_t size
    cdef Py_ssize_t at = start
    cdef int outcome = read_varint(data, length, &at, &size)
    if outcome != RECORD:
        return outcome
    if at > end:
        return CUT_SHORT
    if size > 0:
        if size > length - at:
            return CUT_SHORT
        at += size
    return next_field_of_record(data, length, end, &at, found)


cdef int span_of(Entry entry, bint wants_value, Span *found) noexcept:
    cdef const uint8_t *data = <const uint8_t *> PyBytes_AS_STRING(entry.data)
    cdef Py_ssize_t at
    if entry._magic != 2:
        return field_of_legacy(data, entry.start, entry.end, entry._magic, wants_value, found)
    if wants_value:
        return value_of_record(data, PyBytes_GET_SIZE(entry.data), entry.start, entry.end, found)
    at = entry.start
    return next_field_of_record(data, PyBytes_GET_SIZE(entry.data), entry.end, &at, found)


cdef object bytes_of(Entry entry, bint wants_value):
    cdef Span found
    cdef int outcome = span_of(entry, wants_value, &found)
    if outcome != RECORD:
        raise error_of(entry, outcome)
    if found.size < 0:
        return None
    return PyBytes_FromStringAndSize(PyBytes_AS_STRING(entry.data) + found.start, found.size)


cdef object error_of(Entry entry, int outcome):
    if outcome == TOO_LONG:
        return number_too_long()
    what = "key, value and headers" if entry._magic == 2 else "key and value"
    return InvalidMessageException(f"Message at offset {entry.offset} is shorter than its {what}")


cdef list headers_of(Entry entry):
    cdef const uint8_t *data = <const uint8_t *> PyBytes_AS_STRING(entry.data)
    cdef Py_ssize_t length = PyBytes_GET_SIZE(entry.data)
    cdef Py_ssize_t at = entry.start
    cdef int64_t count
    cdef Span name, value
    cdef int outcome
    cdef list headers = []
    if entry._magic != 2:
        return headers
    for _ in range(2):
        outcome = next_field_of_record(data, length, entry.end, &at, &name)
        if outcome != RECORD:
            raise error_of(entry, outcome)
    outcome = read_varint(data, length, &at, &count)
    if outcome == RECORD and at > entry.end:
        outcome = CUT_SHORT
    if outcome != RECORD:
        raise error_of(entry, outcome)
    while count > 0:  # one too large ends at the end of the record
        count -= 1
        outcome = next_field_of_record(data, length, entry.end, &at, &name)
        if outcome == RECORD:
            outcome = next_field_of_record(data, length, entry.end, &at, &value)
        if outcome != RECORD:
            raise error_of(entry, outcome)
        headers.append(
            (
                entry.data[name.start : name.start + name.size].decode("utf-8", "replace") if name.size > 0 else "",
                None if value.size < 0 else entry.data[value.start : value.start + value.size],
            )
        )
    return headers


# --- messages ---

cdef str MESSAGE = intern("message")    # as names in code are
cdef str OFFSET = intern("offset")


@cython.final
cdef class RecordSource:
    """What all records of a chunk have in common."""

    cdef object topic
    cdef object partition
    cdef object key_decoder     # None: bytes as they are
    cdef object value_decoder

    def __init__(self, topic, partition, key_decoder, value_decoder):
        self.topic = topic
        self.partition = partition
        self.key_decoder = key_decoder
        self.value_decoder = value_decoder


@cython.no_gc
@cython.freelist(64)
cdef class Entry:
    """Where a message is: what Message and MessageAndMetadata have in common, and the memory they take in turn.

    Not looked at by the garbage collector, which would go through every list of records again and again. The one cycle
    that it then cannot end: a decoder that keeps a record which it decodes.
    """

    cdef RecordSource source    # of MessageAndMetadata; here, since only objects of one size share a free list
    cdef bytes data
    cdef Py_ssize_t start
    cdef Py_ssize_t end
    cdef readonly int64_t offset
    cdef int64_t _timestamp_ms
    cdef int _attributes
    cdef uint8_t _magic
    cdef signed char _timestamp_type


@cython.no_gc
cdef class Message(Entry):
    """See message.Message, which knows this as one of its kind."""

    def __init__(self):
        raise TypeError("messages come out of a ByteBufferMessageSet")

    @property
    def magic(self):
        return self._magic

    @property
    def attributes(self):
        return self._attributes

    @property
    def timestamp_ms(self):
        return self._timestamp_ms

    @property
    def timestamp_type(self):
        return self._timestamp_type

    @property
    def key(self):
        return bytes_of(self, False)

    @property
    def value(self):
        return bytes_of(self, True)

    @property
    def headers(self):
        return headers_of(self)

    @property
    def size(self):
        return self.end - self.start

    def __repr__(self):
        return f"{type(self).__name__}(offset={self.offset}, magic={self._magic}, {self.end - self.start} bytes)"


@cython.no_gc
@cython.final
cdef class LegacyMessage(Message):
    """A message of format 0 or 1."""

    def ensure_valid(self):
        check_legacy(<const uint8_t *> PyBytes_AS_STRING(self.data), self.start, self.end)


@cython.no_gc
@cython.final
cdef class Record(Message):
    """A message of format 2; `start` is where its key begins."""

    def ensure_valid(self):
        """Nothing is left to do: the batch's checksum was looked at before."""


@cython.no_gc
@cython.final
cdef class MessageAndMetadata(Entry):
    """A message and where it came from. `key` and `message` are decoded at each access, by whoever accesses them."""

    def __init__(self, topic, partition, Message message not None, key_decoder, value_decoder):
        self.source = RecordSource(topic, partition, key_decoder, value_decoder)
        self.data = message.data
        self.start = message.start
        self.end = message.end
        self.offset = message.offset
        self._timestamp_ms = message._timestamp_ms
        self._attributes = message._attributes
        self._magic = message._magic
        self._timestamp_type = message._timestamp_type

    __class_getitem__ = classmethod(GenericAlias)

    def __getattribute__(self, name):
        """What nearly everybody asks for, before the search that finds the rest, and would find these."""
        if name is MESSAGE:
            return message_of(self)
        if name is OFFSET:
            return self.offset
        return PyObject_GenericGetAttr(self, name)

    @property
    def topic(self):
        return self.source.topic

    @property
    def partition(self):
        return self.source.partition

    @property
    def key(self):
        """The decoded key; None if it is null, without asking the decoder."""
        data = bytes_of(self, False)
        if data is None or self.source.key_decoder is None:
            return data
        return self.source.key_decoder.from_bytes(data)

    @property
    def message(self):
        """The decoded value; None if it is null, without asking the decoder."""
        return message_of(self)

    @property
    def timestamp(self):
        """In ms; -1 for messages of format 0, which have none (0.10 on)."""
        return self._timestamp_ms

    @property
    def timestamp_type(self):
        """-1 none, 0 create time, 1 log append time (0.10 on)."""
        return self._timestamp_type

    @property
    def headers(self):
        """Of messages of format 2; the old consumer never saw them."""
        return headers_of(self)

    def __repr__(self):
        return f"<MessageAndMetadata {self.topic} partition {self.partition} offset {self.offset}>"


cdef object message_of(MessageAndMetadata record):
    data = bytes_of(record, True)
    if data is None or record.source.value_decoder is None:
        return data
    return record.source.value_decoder.from_bytes(data)


cdef int check_legacy(const uint8_t *data, Py_ssize_t start, Py_ssize_t end) except -1:
    cdef uint32_t stored = uint32_at(data + start)
    cdef uint32_t computed = crc32_of(data + start + 4, end - start - 4)
    if stored != computed:
        raise corrupt(stored, computed)
    return 0


# --- message sets ---


@cython.final
cdef class Frame:
    """A run of entries, or of the records of a batch, and how far it was read."""

    cdef bytes data
    cdef const uint8_t *at
    cdef Py_ssize_t position
    cdef Py_ssize_t end
    cdef Py_ssize_t verified_to     # entries before this have the right checksum
    cdef Frame outer
    cdef bint is_batch
    cdef int64_t base               # added to the offsets here
    # entries: what a compressed message of format 1 says about those inside it, and what they may still become
    cdef bint has_wrapper
    cdef signed char wrapper_type
    cdef int64_t wrapper_ms
    cdef int depth
    cdef Budget budget
    # a batch
    cdef int32_t count
    cdef int32_t read
    cdef int attributes
    cdef bint has_append_time
    cdef int64_t first_ms
    cdef int64_t append_ms


@cython.final
cdef class Budget:
    """How much one entry may still become, all sets inside of sets together."""

    cdef object limit
    cdef object left


cdef Frame frame_of(bytes data, Py_ssize_t position, Py_ssize_t end):
    cdef Frame frame = Frame.__new__(Frame)
    frame.data = data
    frame.at = <const uint8_t *> PyBytes_AS_STRING(data)
    frame.position = frame.verified_to = position
    frame.end = end
    return frame


@cython.final
cdef class MessageReader:
    """The messages of a set, one after the other.

    peek() looks at the next one and changes nothing but the fields below; take() moves behind it.
    """

    cdef Frame frame            # None at the end, and after an error
    cdef int64_t offset
    cdef Py_ssize_t start
    cdef Py_ssize_t after
    cdef int64_t timestamp_ms
    cdef int attributes
    cdef uint8_t magic
    cdef signed char timestamp_type

    def __iter__(self):
        return self

    def __next__(self):
        cdef Message message
        if not self.advance():
            return self.nothing()
        message = <Message> (Record.__new__(Record) if self.magic == 2 else LegacyMessage.__new__(LegacyMessage))
        self.describe(message)
        self.take()
        return message

    cdef nothing(self):
        raise StopIteration

    cdef inline void describe(self, Entry entry) noexcept:
        entry.data = self.frame.data
        entry.start = self.start
        entry.end = self.after
        entry.offset = self.offset
        entry._timestamp_ms = self.timestamp_ms
        entry._attributes = self.attributes
        entry._magic = self.magic
        entry._timestamp_type = self.timestamp_type

    cdef Entry described(self):
        """As an object, whichever kind."""
        cdef LegacyMessage message = LegacyMessage.__new__(LegacyMessage)
        self.describe(message)
        return message

    cdef inline void take(self) noexcept:
        self.frame.position = self.after
        self.frame.read += 1

    cdef inline int peek(self, Frame frame) noexcept:
        if frame.is_batch:
            return self.peek_record(frame)
        return self.peek_entry(frame)

    cdef inline int peek_entry(self, Frame frame) noexcept:
        cdef const uint8_t *entry = frame.at + frame.position
        cdef Py_ssize_t left = frame.end - frame.position
        cdef int32_t size
        if left < SMALLEST_ENTRY:
            return NO_RECORD
        size = int32_at(entry + 8)
        if size < MINIMUM_MESSAGE_SIZE or size > left - ENTRY_OVERHEAD:
            return NO_RECORD
        if entry[16] > 1 or entry[17] & CODEC_BITS:
            return NO_RECORD
        self.describe_entry(frame, entry, size)
        return RECORD

    cdef inline void describe_entry(self, Frame frame, const uint8_t *entry, int32_t size) noexcept:
        """An entry of format 0 or 1 that was found whole."""
        self.magic = entry[16]
        self.attributes = entry[17]
        self.offset = wrapping_sum(frame.base, int64_at(entry))
        self.start = frame.position + ENTRY_OVERHEAD
        self.after = self.start + size
        if self.magic == 0:
            self.timestamp_type = -1
            self.timestamp_ms = -1
        elif not frame.has_wrapper:
            self.timestamp_type = self.attributes >> 3 & 1
            self.timestamp_ms = int64_at(entry + 18)
        else:
            self.timestamp_type = frame.wrapper_type
            self.timestamp_ms = frame.wrapper_ms if frame.wrapper_type == APPEND_TIME else int64_at(entry + 18)

    cdef inline int peek_record(self, Frame frame) noexcept:
        cdef Py_ssize_t length = PyBytes_GET_SIZE(frame.data)
        cdef Py_ssize_t position = frame.position
        cdef int64_t size, timestamp, delta
        cdef Py_ssize_t after
        cdef int outcome
        if frame.read >= frame.count:
            return NO_RECORD
        outcome = read_varint(frame.at, length, &position, &size)
        if outcome != RECORD:
            return outcome
        if position > frame.end or size < 0 or size > frame.end - position:
            return CUT_SHORT
        after = position + size
        position += 1  # attributes, which nobody uses
        outcome = read_varint(frame.at, length, &position, &timestamp)
        if outcome != RECORD:
            return outcome
        outcome = read_varint(frame.at, length, &position, &delta)
        if outcome != RECORD:
            return outcome
        if position > after:
            return CUT_SHORT
        self.magic = 2
        self.attributes = frame.attributes
        self.offset = wrapping_sum(frame.base, delta)
        self.start = position
        self.after = after
        self.timestamp_type = frame.attributes >> 3 & 1
        self.timestamp_ms = frame.append_ms if frame.has_append_time else wrapping_sum(frame.first_ms, timestamp)
        return RECORD

    cdef int advance(self) except -1:
        """Go on to the next message, through ends and beginnings. 1: peek() has found it; 0: there is none."""
        cdef Frame frame
        cdef int outcome
        try:
            while self.frame is not None:
                frame = self.frame
                outcome = self.peek(frame)
                if outcome == RECORD:
                    return 1
                if outcome == TOO_LONG:
                    raise number_too_long()
                if outcome == CUT_SHORT:
                    raise batch_cut_short(frame.base)
                if not frame.is_batch:
                    self.next_entry(frame)
                elif frame.position != frame.end:
                    raise InvalidMessageException(
                        f"Message batch at offset {frame.base} holds more than its {frame.count} messages"
                    )
                else:
                    self.frame = frame.outer
            return 0
        except BaseException:
            self.frame = None
            raise

    cdef int next_entry(self, Frame frame) except -1:
        """What is no plain message: the end, a batch, a compressed set, or wrong."""
        cdef const uint8_t *entry = frame.at + frame.position
        cdef Py_ssize_t left = frame.end - frame.position
        cdef Py_ssize_t position = frame.position
        cdef int32_t size
        if left >= ENTRY_OVERHEAD:
            size = int32_at(entry + 8)
            if size < MINIMUM_MESSAGE_SIZE:
                raise impossible_size(size)
        if left < SMALLEST_ENTRY or size > left - ENTRY_OVERHEAD:
            self.frame = frame.outer
            return 0
        if entry[16] == 2 and frame.budget is None:
            self.open_batch(frame, position, size)
            return 0
        self.describe_entry(frame, entry, size)
        if entry[16] > 1:
            check_legacy(frame.at, self.start, self.after)
            raise InvalidMessageException(
                f"Message at offset {self.offset} has format {self.magic}; known are 0, 1 and 2"
            )
        self.open_wrapper(frame)
        return 0

    cdef int open_batch(self, Frame outer, Py_ssize_t position, int32_t size) except -1:
        cdef const uint8_t *header = outer.at + position
        cdef Py_ssize_t end = position + ENTRY_OVERHEAD + size
        cdef Py_ssize_t records_at = position + BATCH_HEADER_SIZE
        cdef uint32_t stored, computed
        cdef int attributes
        cdef Frame frame
        if size < MINIMUM_BATCH_SIZE:
            raise impossible_size(size)
        stored = uint32_at(header + 17)
        computed = crc32c_of(header + BATCH_CHECKED_FROM, ENTRY_OVERHEAD + size - BATCH_CHECKED_FROM)
        if computed != stored:
            raise corrupt(stored, computed)
        attributes = <int32_t> (<uint32_t> header[21] << 24 | <uint32_t> header[22] << 16) >> 16
        outer.position = end
        if attributes & CONTROL_BIT:
            return 0
        if attributes & CODEC_BITS and records_at < end:
            inside = decompress(attributes & CODEC_BITS, memoryview(outer.data)[records_at:end])
            frame = frame_of(inside, 0, len(inside))
        else:
            frame = frame_of(outer.data, records_at, end)
        frame.is_batch = True
        frame.base = int64_at(header)
        frame.attributes = attributes
        frame.first_ms = int64_at(header + 27)
        frame.append_ms = int64_at(header + 35)
        frame.has_append_time = attributes >> 3 & 1 == APPEND_TIME
        frame.count = int32_at(header + 57)
        frame.outer = outer
        self.frame = frame
        return 0

    cdef int open_wrapper(self, Frame outer) except -1:
        """The messages inside the compressed one that was just described."""
        cdef LegacyMessage message = LegacyMessage.__new__(LegacyMessage)
        cdef Budget budget = outer.budget
        cdef Frame frame
        cdef int codec = self.attributes & CODEC_BITS
        self.describe(message)
        value = message.value
        if value is None:
            raise InvalidMessageException(f"Message at offset {message.offset} is compressed, but has no value")
        if budget is None:
            budget = Budget.__new__(Budget)
            budget.limit = budget.left = limit_for(len(value))
        if outer.depth == MOST_NESTING:
            raise DecompressionLimitException(
                f"Message at offset {message.offset} is compressed more than {MOST_NESTING} times", limit=budget.limit
            )
        if codec > LZ4:  # zstd is for format 2 only
            raise UnsupportedCodecException(f"{codec} is an unknown compression codec", codec=codec)
        inside = decompress(codec, value, limit=budget.left, check_lz4_header=False)
        budget.left -= len(inside)
        frame = frame_of(inside, 0, len(inside))
        frame.base = base_of(inside, message)
        frame.has_wrapper = message._magic == 1
        frame.wrapper_type = message._timestamp_type
        frame.wrapper_ms = message._timestamp_ms
        frame.depth = outer.depth + 1
        frame.budget = budget
        frame.outer = outer
        outer.position = message.end
        self.frame = frame
        return 0


cdef int64_t base_of(bytes inside, LegacyMessage wrapper) except? -1:
    """What to add to the offsets inside: format 0 stores them as they are, format 1 counts back from the wrapper's."""
    cdef Summary summary
    summarize(inside, 0, &summary)
    if summary.valid_bytes != PyBytes_GET_SIZE(inside):
        raise InvalidMessageException(f"Message set compressed at offset {wrapper.offset} ends within a message")
    # Some producers left the wrapper's offset at 0; those inside are right then.
    if wrapper._magic == 0 or not summary.has_entry or wrapper.offset == 0:
        return 0
    return wrapping_sum(wrapper.offset, -summary.last_offset if summary.last_offset != -LARGEST_OFFSET - 1
                        else summary.last_offset)


cdef struct Summary:
    Py_ssize_t valid_bytes
    bint has_entry
    int64_t first_offset
    int64_t last_offset


cdef int summarize(bytes data, Py_ssize_t start, Summary *summary) except -1:
    """Step from entry to entry."""
    cdef const uint8_t *at = <const uint8_t *> PyBytes_AS_STRING(data) + start
    cdef Py_ssize_t left = PyBytes_GET_SIZE(data) - start
    cdef const uint8_t *entry = at
    cdef int32_t size, delta
    cdef int64_t offset
    summary.has_entry = False
    summary.first_offset = summary.last_offset = -1
    while left >= SMALLEST_ENTRY:
        offset = int64_at(entry)
        size = int32_at(entry + 8)
        if size < MINIMUM_MESSAGE_SIZE or (entry[16] == 2 and size < MINIMUM_BATCH_SIZE):
            raise impossible_size(size)
        if size > left - ENTRY_OVERHEAD:
            break
        if not summary.has_entry:
            summary.has_entry = True
            summary.first_offset = offset
        summary.last_offset = offset
        if entry[16] == 2:
            delta = int32_at(entry + 23)
            if delta < 0:
                raise InvalidMessageException(
                    f"Message batch at offset {offset} ends {-<int64_t> delta} before it begins"
                )
            summary.last_offset = wrapping_sum(offset, delta)
        entry += ENTRY_OVERHEAD + size
        left -= ENTRY_OVERHEAD + size
    if left >= ENTRY_OVERHEAD and int32_at(entry + 8) < MINIMUM_MESSAGE_SIZE:
        raise impossible_size(int32_at(entry + 8))
    summary.valid_bytes = entry - at
    return 0


cdef bint is_end_of(const uint8_t[::1] view, bytes data, Py_ssize_t before) noexcept:
    """Whether the view is of this very memory, from there on."""
    return &view[0] == <const uint8_t *> PyBytes_AS_STRING(data) + before


@cython.final
cdef class ByteBufferMessageSet:
    """Messages of one partition as a broker sent them. Iterating is deep, lazy, in order, and may be done again."""

    cdef bytes data
    cdef Py_ssize_t start       # it reaches from here to the end of the data
    cdef bint is_summarized
    cdef Summary summary

    def __init__(self, data):
        """Copies, but for a view of the end of a `bytes` of which it is nearly all: an answer about one partition."""
        cdef Py_ssize_t before
        if type(data) is memoryview and type(data.obj) is bytes and data.nbytes and data.contiguous and data.format == "B":
            before = PyBytes_GET_SIZE(data.obj) - <Py_ssize_t> data.nbytes
            if before <= MOST_KEPT_IN_VAIN and is_end_of(data, data.obj, before):
                self.data = data.obj
                self.start = before
                return
        self.data = bytes(data)

    cdef Summary *known_summary(self) except NULL:
        if not self.is_summarized:
            summarize(self.data, self.start, &self.summary)
            self.is_summarized = True
        return &self.summary

    @property
    def size_in_bytes(self):
        """All bytes, with a part of an entry at the end."""
        return PyBytes_GET_SIZE(self.data) - self.start

    @property
    def valid_bytes(self):
        """The bytes of all whole entries; InvalidMessageException if an entry's size is impossible."""
        return self.known_summary().valid_bytes

    @property
    def has_whole_entry(self):
        """False for nothing, and for a part of a message that is larger than the fetch size."""
        return self.known_summary().valid_bytes > 0

    @property
    def first_offset(self):
        """The first whole entry's offset as stored: a compressed one of format 0 or 1 has that of its last message."""
        cdef Summary *summary = self.known_summary()
        return summary.first_offset if summary.has_entry else None

    @property
    def last_offset(self):
        """The offset of the last message of the last whole entry; the next fetch asks for the one after it."""
        cdef Summary *summary = self.known_summary()
        return summary.last_offset if summary.has_entry else None

    def __iter__(self):
        cdef MessageReader reader = MessageReader.__new__(MessageReader)
        reader.frame = frame_of(self.data, self.start, PyBytes_GET_SIZE(self.data))
        return reader

    def __repr__(self):
        return f"ByteBufferMessageSet({self.size_in_bytes} bytes)"


# --- checksums ahead ---


cdef Py_ssize_t valid_run(const uint8_t *at, Py_ssize_t position, Py_ssize_t end, Py_ssize_t most) noexcept nogil:
    """How far plain messages of format 0 and 1 with the right checksum reach; stops after `most` bytes."""
    cdef Py_ssize_t stop = position + most if most < end - position else end
    cdef Py_ssize_t left
    cdef const uint8_t *entry
    cdef int32_t size
    while position < stop:
        entry = at + position
        left = end - position
        if left < SMALLEST_ENTRY:
            break
        size = int32_at(entry + 8)
        if size < MINIMUM_MESSAGE_SIZE or size > left - ENTRY_OVERHEAD:
            break
        if entry[16] > 1 or entry[17] & CODEC_BITS:
            break
        if uint32_at(entry + 12) != crc32_of(entry + 16, size - 4):
            break
        position += ENTRY_OVERHEAD + size
    return position


cdef bint verify_ahead(Frame frame):
    """Look at the checksums of the next 64 KiB. False if not even the next one is right.

    Keeps the GIL: it takes microseconds. Whoever waits for the GIL would be woken and come too late.
    """
    cdef Py_ssize_t position = frame.position
    cdef Py_ssize_t reached
    reached = valid_run(frame.at, position, frame.end, VERIFY_AHEAD)
    if reached > frame.verified_to:
        frame.verified_to = reached
    return reached > position


# --- streams ---


cdef class ConsumedOffset:
    """The one number of a partition that is written a million times a second."""

    cdef public int64_t consumed_offset


cdef class RecordCursor:
    """The iterator of a stream, as far as it is about records of a chunk in memory; the rest is next_slowly()'s.

    While `_reader` is set a record is chosen, counted as consumed and handed out in one step during which no other
    thread runs. stop_reading() of another thread comes before or after it, so this needs no lock.
    """

    cdef MessageReader _reader
    cdef ConsumedOffset _info
    cdef RecordSource _source
    cdef int64_t _first_offset
    cdef int64_t _count

    __class_getitem__ = classmethod(GenericAlias)

    def __iter__(self):
        return self

    def __next__(self):
        cdef MessageReader reader
        cdef Frame frame
        cdef MessageAndMetadata record
        while True:
            reader = self._reader
            if reader is None:
                break
            frame = reader.frame
            if frame is None or reader.peek(frame) != RECORD:
                break
            if reader.offset < self._info.consumed_offset:
                reader.take()
                continue
            if reader.after > frame.verified_to and not frame.is_batch:
                if not verify_ahead(frame):
                    break
                continue
            if reader.offset < 0 or reader.offset == LARGEST_OFFSET:
                break
            record = <MessageAndMetadata> MessageAndMetadata.__new__(MessageAndMetadata)
            if self._reader is not reader:
                continue  # making it collected garbage, and meanwhile a rebalance took the chunk
            reader.describe(record)
            reader.take()
            record.source = self._source
            self._info.consumed_offset = record.offset + 1
            if self._count == 0:
                self._first_offset = record.offset
            self._count += 1
            return record
        return self.next_slowly()

    def next_slowly(self):
        """Whatever is more than the next record of the chunk at hand."""
        raise NotImplementedError

    def read_from(self, messages, ConsumedOffset info not None, key_decoder, value_decoder):
        """Hand out records of these messages from now on; without any checks if they are another kind of iterator."""
        self._info = info
        self._source = RecordSource(info.topic, info.partition, key_decoder, value_decoder)
        self._reader = <MessageReader> messages if isinstance(messages, MessageReader) else None

    def read_ahead(self):
        """For the twin in Python, where some records at once are faster; here, none are."""

    def take_back(self):
        """For the twin: here, nothing was read ahead."""

    def stop_reading(self):
        """From now on all is for next_slowly()."""
        self._reader = None

    def count(self, int64_t first_offset, int64_t number=1):
        """So many were handed out by next_slowly() or as a batch."""
        if self._count == 0:
            self._first_offset = first_offset
        self._count += number

    def take_counts(self, ConsumedOffset info not None):
        """First offset, next offset and number of those handed out since the last time, in one step."""
        counts = (self._first_offset, info.consumed_offset, self._count)
        self._count = 0
        return counts


def with_direct_next(cls):
    """Let `for` come to RecordCursor.__next__ directly: for a class made in Python it would look it up each time."""
    if issubclass(cls, RecordCursor) and "__next__" not in vars(cls):
        (<TypeObject *> cls).tp_iternext = (<TypeObject *> RecordCursor).tp_iternext
    return cls


# --- a chunk at a time ---


cdef int next_valid(MessageReader reader, int64_t consumed_offset) except -1:
    """Go on to the next one that a stream would hand out. 0 at the end."""
    while (reader.frame is not None and reader.peek(reader.frame) == RECORD) or reader.advance():
        if reader.offset < consumed_offset:
            reader.take()
            continue
        if not reader.frame.is_batch and reader.after > reader.frame.verified_to and not verify_ahead(reader.frame):
            check_legacy(reader.frame.at, reader.start, reader.after)
        if reader.offset < 0 or reader.offset == LARGEST_OFFSET:
            raise invalid_offset(reader.offset)
        return 1
    return 0


def read_batch(MessageReader messages not None, topic, partition, key_decoder, value_decoder,
               int64_t consumed_offset, Py_ssize_t most_bytes):
    """Records from `consumed_offset` on, and the error that came after them, if one did."""
    cdef RecordSource source = RecordSource(topic, partition, key_decoder, value_decoder)
    cdef MessageAndMetadata record
    cdef list records = []
    cdef Py_ssize_t size = 0
    try:
        while size < most_bytes and next_valid(messages, consumed_offset):
            record = <MessageAndMetadata> MessageAndMetadata.__new__(MessageAndMetadata)
            messages.describe(record)
            messages.take()
            record.source = source
            records.append(record)
            consumed_offset = record.offset + 1
            size += record.end - record.start
    except Exception as error:
        return records, error
    return records, None


cdef inline void set_view(
    char *place, const uint8_t *data, const Span *found, int32_t buffer, Py_ssize_t buffer_from
) noexcept:
    """A view of bytes: their number; then up to 12 of them, or the first 4 and where all of them are."""
    cdef int32_t size = <int32_t> found.size
    cdef int32_t position
    if found.size < 0:
        memset(place, 0, 16)
    elif size > 12:
        position = <int32_t> (found.start - buffer_from)
        memcpy(place, &size, 4)
        memcpy(place + 4, data + found.start, 4)
        memcpy(place + 8, &buffer, 4)
        memcpy(place + 12, &position, 4)
    else:
        memset(place, 0, 16)
        memcpy(place, &size, 4)
        memcpy(place + 4, data + found.start, size)


@cython.final
cdef class Column:
    """As Arrow has them: fixed places, and a bit each that says whether there is one."""

    cdef bytearray places
    cdef bytearray bits
    cdef char *at               # of places and of bits, until the next make_room()
    cdef uint8_t *bits_at
    cdef Py_ssize_t width
    cdef Py_ssize_t there       # how many are not null

    cdef int make_room(self, Py_ssize_t before, Py_ssize_t room) except -1:
        PyByteArray_Resize(self.places, room * self.width)
        PyByteArray_Resize(self.bits, room // 8)
        self.at = PyByteArray_AS_STRING(self.places)
        self.bits_at = <uint8_t *> PyByteArray_AS_STRING(self.bits)
        memset(self.bits_at + before // 8, 0, (room - before) // 8)
        return 0

    cdef inline void set_there(self, Py_ssize_t row) noexcept:
        self.bits_at[row >> 3] |= 1 << (row & 7)
        self.there += 1

    cdef tuple finished(self, Py_ssize_t rows):
        PyByteArray_Resize(self.places, rows * self.width)
        PyByteArray_Resize(self.bits, (rows + 7) // 8)
        return self.places, self.bits if self.there < rows else None, rows - self.there


cdef Column column_of(Py_ssize_t width):
    cdef Column column = Column.__new__(Column)
    column.places = bytearray()
    column.bits = bytearray()
    column.width = width
    return column


cdef inline int fields_of(MessageReader reader, Frame frame, Span *key, Span *value) noexcept:
    """Key and value of the message that peek() has found."""
    cdef Py_ssize_t length = PyBytes_GET_SIZE(frame.data)
    cdef Py_ssize_t at = reader.start
    cdef int outcome
    if reader.magic != 2:
        outcome = field_of_legacy(frame.at, reader.start, reader.after, reader.magic, False, key)
        if outcome == RECORD:
            outcome = field_of_legacy(frame.at, reader.start, reader.after, reader.magic, True, value)
        return outcome
    outcome = next_field_of_record(frame.at, length, reader.after, &at, key)
    if outcome == RECORD:
        outcome = next_field_of_record(frame.at, length, reader.after, &at, value)
    return outcome


def read_columns(MessageReader messages not None, int64_t consumed_offset, Py_ssize_t most_bytes):
    """Offsets, timestamps, keys and values as Arrow has them, and the error that came after them, if one did.

    Nothing is copied but bytes up to 12, which Arrow wants within the view; others stay in the set, or in what was
    decompressed from it. Places in a buffer have 31 bits, so one that is longer counts as two.
    """
    cdef Column offsets = column_of(8)
    cdef Column timestamps = column_of(8)
    cdef Column types = column_of(1)
    cdef Column keys = column_of(16)
    cdef Column values = column_of(16)
    cdef list buffers = []
    cdef bytes buffer = None
    cdef int32_t number = -1                # of the buffer
    cdef Py_ssize_t buffer_from = 0, size = 0, rows = 0, room = 0
    cdef int64_t first_offset = -1
    cdef Span key, value
    cdef Frame frame
    cdef Column column
    cdef int outcome
    error = None
    try:
        while size < most_bytes and next_valid(messages, consumed_offset):
            frame = messages.frame
            outcome = fields_of(messages, frame, &key, &value)
            if outcome != RECORD:
                raise error_of(messages.described(), outcome)
            if frame.data is not buffer or messages.after - buffer_from > 0x7FFFFFFF:
                buffer = frame.data
                buffer_from = messages.start if messages.after > 0x7FFFFFFF else 0
                buffers.append((buffer, buffer_from))
                number += 1
            if rows == room:
                room = 4 * room if room else 2048
                for column in (offsets, timestamps, types, keys, values):
                    column.make_room(rows, room)
            set_view(keys.at + 16 * rows, frame.at, &key, number, buffer_from)
            if key.size >= 0:
                keys.set_there(rows)
            set_view(values.at + 16 * rows, frame.at, &value, number, buffer_from)
            if value.size >= 0:
                values.set_there(rows)
            (<int64_t *> offsets.at)[rows] = messages.offset
            offsets.there += 1
            (<int64_t *> timestamps.at)[rows] = messages.timestamp_ms
            if messages.timestamp_ms != -1:
                timestamps.set_there(rows)
            types.at[rows] = messages.timestamp_type
            types.there += 1
            rows += 1
            if first_offset < 0:
                first_offset = messages.offset
            consumed_offset = messages.offset + 1
            size += messages.after - messages.start
            messages.take()
    except Exception as raised:
        error = raised
    columns = Columns(
        rows,
        first_offset,
        consumed_offset - 1 if rows else -1,
        offsets.finished(rows),
        timestamps.finished(rows),
        types.finished(rows),
        keys.finished(rows),
        values.finished(rows),
        buffers,
    )
    return columns, error


# --- receiving ---


cdef enum:
    FILLED = 0
    CLOSED = -1
    TIMED_OUT = -2
    WOKEN = -3


cdef int fill(
    int descriptor, int waker, char *target, Py_ssize_t size, int timeout_ms, Py_ssize_t *filled
) noexcept nogil:
    """FILLED, CLOSED, TIMED_OUT, WOKEN, or an errno."""
    cdef pollfd[2] watched
    cdef ssize_t received
    cdef int ready
    while filled[0] < size:
        received = recv(descriptor, target + filled[0], size - filled[0], 0)
        if received > 0:
            filled[0] += received
            continue
        if received == 0:
            return CLOSED
        if errno != EAGAIN:  # which is EWOULDBLOCK, on every system with poll.h that Python runs on
            return errno
        watched[0].fd, watched[1].fd = descriptor, waker
        watched[0].events = watched[1].events = POLLIN
        watched[0].revents = watched[1].revents = 0
        ready = poll(watched, 2, timeout_ms)
        if ready < 0:
            return errno
        if ready == 0:
            return TIMED_OUT
        if watched[1].revents:
            return WOKEN
    return FILLED


def receive(int descriptor, int waker, char[::1] target not None, int timeout_ms):
    """Fill the target from a socket that does not block, in one go, while other threads run.

    Python's own recv_into() takes the GIL back after every piece, for which a thread that reads records lets it wait
    up to five milliseconds each time. Returns FILLED, CLOSED, TIMED_OUT (nothing came for so long) or WOKEN (`waker`
    is readable); other errors are OSErrors.
    """
    cdef Py_ssize_t filled = 0
    cdef int outcome
    if target.shape[0] == 0:
        return FILLED
    while True:
        with nogil:
            outcome = fill(descriptor, waker, &target[0], target.shape[0], timeout_ms, &filled)
        if outcome != EINTR:
            break
        PyErr_CheckSignals()
    if outcome > 0:
        raise OSError(outcome, strerror(outcome))
    return outcome


cdef int fill_answer(
    int descriptor, int waker, char *target, Py_ssize_t smallest, Py_ssize_t room, int timeout_ms,
    char *prefix, Py_ssize_t *filled,
) noexcept nogil:
    """The prefix, and what it announces if that is possible and fits; `filled` counts both, for the next try."""
    cdef Py_ssize_t part = filled[0] if filled[0] < SIZE_PREFIX else SIZE_PREFIX
    cdef Py_ssize_t size
    cdef int outcome = fill(descriptor, waker, prefix, SIZE_PREFIX, timeout_ms, &part)
    if outcome != FILLED:
        filled[0] = part
        return outcome
    if filled[0] < SIZE_PREFIX:
        filled[0] = SIZE_PREFIX
    size = int32_at(<const uint8_t *> prefix)
    if size < smallest or size > room:
        return FILLED
    part = filled[0] - SIZE_PREFIX
    outcome = fill(descriptor, waker, target, size, timeout_ms, &part)
    filled[0] = SIZE_PREFIX + part
    return outcome


def receive_answer(int descriptor, int waker, Py_ssize_t likely, Py_ssize_t smallest, Py_ssize_t most, int timeout_ms):
    """An answer after the four bytes of its size: (FILLED or another outcome, its size, itself).

    It gets memory of its own, neither cleared before nor copied after. If it is no larger than `likely` it comes in one
    go, size and all, while other threads run. One smaller than `smallest` or larger than `most` is left to the caller:
    (FILLED, its size, None).
    """
    cdef PyObject *owned = NULL
    cdef char[SIZE_PREFIX] prefix
    cdef char *at
    cdef Py_ssize_t room = likely if likely < most else most
    cdef Py_ssize_t filled = 0, size
    cdef int outcome
    try:
        while True:
            if owned is NULL:
                owned = new_bytes(NULL, room)
            at = content_of(owned)
            with nogil:
                outcome = fill_answer(descriptor, waker, at, smallest, room, timeout_ms, prefix, &filled)
            if outcome == EINTR:
                PyErr_CheckSignals()
                continue
            if outcome > 0:
                raise OSError(outcome, strerror(outcome))
            if outcome != FILLED:
                return outcome, 0, None
            size = int32_at(<const uint8_t *> prefix)
            if size < smallest or size > most:
                return FILLED, size, None
            if filled == SIZE_PREFIX + size:
                break
            release(owned)
            owned = NULL
            room = size
        if room != size:
            resize_bytes(&owned, size)
        return FILLED, size, <object> owned
    finally:
        release(owned)


def send_some(int descriptor, const uint8_t[::1] source not None):
    """How much of the source a socket that does not block has taken, perhaps nothing. Keeps the GIL.

    Python's own send() lets it go, for as long as a thread that reads records then keeps it: up to five milliseconds,
    in which nobody receives what the broker answers.
    """
    cdef ssize_t sent
    if source.shape[0] == 0:
        return 0
    sent = send(descriptor, &source[0], source.shape[0], MSG_NOSIGNAL)
    if sent >= 0:
        return sent
    if errno == EAGAIN or errno == EINTR:
        return 0
    raise OSError(errno, strerror(errno))


def crc32(const uint8_t[::1] data not None, *, int at_most=ALL_INSTRUCTIONS):
    """As zlib's; for tests, which ask for what other processors have: 0 tables, 1 instructions on 16 bytes, 2 on 32."""
    checksums_prepare(at_most)
    found = crc32_of(&data[0], data.shape[0]) if data.shape[0] else 0
    checksums_prepare(ALL_INSTRUCTIONS)
    return found


def crc32c(const uint8_t[::1] data not None, *, int at_most=ALL_INSTRUCTIONS):
    """As the crc32c package's; for tests."""
    checksums_prepare(at_most)
    found = crc32c_of(&data[0], data.shape[0]) if data.shape[0] else 0
    checksums_prepare(ALL_INSTRUCTIONS)
    return found


checksums_prepare(ALL_INSTRUCTIONS)
