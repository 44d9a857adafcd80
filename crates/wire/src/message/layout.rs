//! Layout of a message (RFC 1035 §4.1): fixed lengths, offsets, compression pointers. All code that parses or
//! writes messages by hand uses these constants.

/// Length of the header in bytes (RFC 1035 §4.1.1).
pub const HEADER_LEN: usize = 12;

/// Bytes of a question after its name: QTYPE and QCLASS (RFC 1035 §4.1.2).
pub const QUESTION_TAIL: usize = 4;

/// Bytes of a record between its owner and its RDATA: TYPE, CLASS, TTL and RDLENGTH (RFC 1035 §4.1.3).
pub const RECORD_HEAD: usize = 10;

/// Offset of the TTL in a [`RECORD_HEAD`].
pub const TTL_AT: usize = 4;

/// Offset of RDLENGTH in a [`RECORD_HEAD`].
pub const RDLENGTH_AT: usize = 8;

/// The RDATA length in `head`, which begins with a [`RECORD_HEAD`].
#[inline]
pub fn rdlength(head: &[u8]) -> usize {
    u16::from_be_bytes([head[RDLENGTH_AT], head[RDLENGTH_AT + 1]]) as usize
}

/// Bytes of a compression pointer (RFC 1035 §4.1.4).
pub const POINTER_LEN: usize = 2;

/// Most compression pointers that a reader follows for any name of a message built here.
///
/// RFC 1035 §4.1.4 has no limit, but readers have: Go's resolver library treats a name with more than ten
/// pointers as a loop. So a compressed name needs one pointer less than this, and an owner that is only a
/// pointer to such a name needs this many.
pub const MAX_POINTERS: usize = 8;

/// Most bytes of a message over a stream, and so of any message (RFC 1035 §4.2.2).
pub const MAX_MESSAGE: usize = 65_535;

/// The bits that make two bytes a compression pointer; the other 14 are the offset (RFC 1035 §4.1.4).
const POINTER_BITS: u16 = 0xc000;

/// The pointer to the name of the first question, `c00c`, which is the owner of most records in a response.
pub const QNAME_POINTER: [u8; POINTER_LEN] = (POINTER_BITS | HEADER_LEN as u16).to_be_bytes();

/// A name continues with a pointer at a byte of this value or greater, the first of the pointer's two.
pub const POINTER: u8 = (POINTER_BITS >> 8) as u8;

/// An offset in a message, in bytes from the start of its header. Fits 16 bits, since no message exceeds
/// [`MAX_MESSAGE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Offset(u16);

impl Offset {
    /// The name of the first question, directly after the header.
    pub const QNAME: Offset = Offset(HEADER_LEN as u16);

    /// Offsets below this are in reach of a pointer, which has 14 bits.
    pub const REACH: usize = 0x4000;

    /// The offset `at` bytes from the start; `None` beyond [`MAX_MESSAGE`].
    #[inline]
    pub const fn new(at: usize) -> Option<Offset> {
        if at <= MAX_MESSAGE { Some(Offset(at as u16)) } else { None }
    }

    /// The offset of the end of a message of `len` bytes, which is at most [`MAX_MESSAGE`].
    #[inline]
    pub(super) fn end_of(len: usize) -> Offset {
        debug_assert!(len <= MAX_MESSAGE, "longer than a message");
        Offset(len as u16)
    }

    /// As an index into the message.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The offset `bytes` further on; `None` beyond [`MAX_MESSAGE`].
    #[inline]
    pub const fn plus(self, bytes: usize) -> Option<Offset> {
        match self.index().checked_add(bytes) {
            Some(at) => Offset::new(at),
            None => None,
        }
    }

    /// A pointer to the offset; `None` if it is out of [`REACH`](Self::REACH).
    #[inline]
    pub const fn pointer(self) -> Option<[u8; POINTER_LEN]> {
        if self.index() < Self::REACH { Some((POINTER_BITS | self.0).to_be_bytes()) } else { None }
    }

    /// The offset that a pointer refers to; ignores its two upper bits.
    #[inline]
    pub const fn of_pointer(pointer: [u8; POINTER_LEN]) -> Offset {
        Offset(u16::from_be_bytes(pointer) & !POINTER_BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_reach_the_first_sixteen_kibibytes() {
        let at = |at| Offset::new(at).expect("an offset");
        assert_eq!((Offset::QNAME.pointer(), QNAME_POINTER), (Some([0xc0, 0x0c]), [0xc0, 0x0c]));
        assert_eq!(at(0x3fff).pointer(), Some([0xff, 0xff]));
        assert_eq!(at(0x4000).pointer(), None);
        for index in [0, 12, 0x1234, 0x3fff] {
            let pointer = at(index).pointer().expect("within reach");
            assert!(pointer[0] >= POINTER);
            assert_eq!(Offset::of_pointer(pointer), at(index));
        }
    }

    #[test]
    fn no_offset_lies_beyond_the_longest_message() {
        assert_eq!(Offset::new(MAX_MESSAGE).map(Offset::index), Some(65_535));
        assert_eq!(Offset::new(MAX_MESSAGE + 1), None);
        let last = Offset::new(65_530).expect("an offset");
        assert_eq!(last.plus(5).map(Offset::index), Some(65_535));
        assert_eq!((last.plus(6), last.plus(usize::MAX)), (None, None));
    }
}
