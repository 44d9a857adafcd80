//! Where things stand in a message (RFC 1035 §4.1): lengths of what has a fixed length, offsets, compression
//! pointers. Everybody who reads or writes a message by hand takes the numbers from here.

/// Length of the header in bytes (RFC 1035 §4.1.1).
pub const HEADER_LEN: usize = 12;

/// Bytes of a question behind its name: QTYPE and QCLASS (RFC 1035 §4.1.2).
pub const QUESTION_TAIL: usize = 4;

/// Bytes of a record between its owner and its RDATA: TYPE, CLASS, TTL and RDLENGTH (RFC 1035 §4.1.3).
pub const RECORD_HEAD: usize = 10;

/// Where in a [`RECORD_HEAD`] the TTL stands.
pub const TTL_AT: usize = 4;

/// Where in a [`RECORD_HEAD`] RDLENGTH stands.
pub const RDLENGTH_AT: usize = 8;

/// The bytes of RDATA that `head`, which begins with a [`RECORD_HEAD`], announces.
#[inline]
pub fn rdlength(head: &[u8]) -> usize {
    u16::from_be_bytes([head[RDLENGTH_AT], head[RDLENGTH_AT + 1]]) as usize
}

/// Bytes of a compression pointer (RFC 1035 §4.1.4).
pub const POINTER_LEN: usize = 2;

/// The most compression pointers that reading any name of a message made here follows.
///
/// RFC 1035 §4.1.4 has no bound, but readers have, each its own: the library that Go programs resolve names
/// with takes a name of more than ten pointers for a loop. So a name that is written out or compressed
/// follows one less than this, and an owner that is nothing but a pointer to such a name follows as many.
pub const MAX_POINTERS: usize = 8;

/// The most bytes one message can have over a stream, and so at all (RFC 1035 §4.2.2).
pub const MAX_MESSAGE: usize = 65_535;

/// The bits that make two bytes a compression pointer; the other 14 are the offset (RFC 1035 §4.1.4).
const POINTER_BITS: u16 = 0xc000;

/// The pointer to the name of the first question, which nearly every owner in an answer is: `c00c`.
pub const QNAME_POINTER: [u8; POINTER_LEN] = (POINTER_BITS | HEADER_LEN as u16).to_be_bytes();

/// A name goes on with a pointer where it has this byte or a greater one: the first of the pointer's two.
pub const POINTER: u8 = (POINTER_BITS >> 8) as u8;

/// An offset in a message, in bytes from the start of its header. No message is longer than [`MAX_MESSAGE`],
/// so 16 bits hold every one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Offset(u16);

impl Offset {
    /// Where the name of the first question stands: right behind the header.
    pub const QNAME: Offset = Offset(HEADER_LEN as u16);

    /// Pointers have 14 bits: they reach what stands below this many bytes, and nothing from there on.
    pub const REACH: usize = 0x4000;

    /// The offset `at` bytes from the start; `None` where no message has any.
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

    /// The offset `bytes` further on, if a message can reach so far.
    #[inline]
    pub const fn plus(self, bytes: usize) -> Option<Offset> {
        match self.index().checked_add(bytes) {
            Some(at) => Offset::new(at),
            None => None,
        }
    }

    /// The pointer to it; `None` if it lies out of [`REACH`](Self::REACH).
    #[inline]
    pub const fn pointer(self) -> Option<[u8; POINTER_LEN]> {
        if self.index() < Self::REACH { Some((POINTER_BITS | self.0).to_be_bytes()) } else { None }
    }

    /// Where a pointer leads. Of its bits only the 14 of the offset are looked at.
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
