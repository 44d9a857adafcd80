//! Messages on a stream: two bytes of length before each (RFC 1035 §4.2.2).

use transport::MIN_MESSAGE;

/// The next message in `input`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framed {
    /// A message of this many bytes, after its length prefix.
    Whole(usize),
    /// The message is not complete.
    Partial,
    /// Shorter than a DNS header.
    Bad,
}

/// Returns the length of the first message.
pub(crate) fn frame(input: &[u8]) -> Framed {
    let [high, low, rest @ ..] = input else { return Framed::Partial };
    let len = usize::from(u16::from_be_bytes([*high, *low]));
    match len {
        ..MIN_MESSAGE => Framed::Bad,
        _ if rest.len() < len => Framed::Partial,
        _ => Framed::Whole(len),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames() {
        assert_eq!(frame(&[]), Framed::Partial);
        assert_eq!(frame(&[0]), Framed::Partial);
        assert_eq!(frame(&[0, 11]), Framed::Bad);
        assert_eq!(frame(&[0, 12]), Framed::Partial);
        assert_eq!(frame(&[&[0, 12][..], &[1; 11]].concat()), Framed::Partial);
        assert_eq!(frame(&[&[0, 12][..], &[1; 12]].concat()), Framed::Whole(12));
        assert_eq!(frame(&[&[1, 0][..], &[1; 300]].concat()), Framed::Whole(256));
    }
}
