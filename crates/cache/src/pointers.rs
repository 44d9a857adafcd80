//! Checks which compression pointers stay valid when a message is copied behind another header and question.

use std::ops::Range;

use wire::message::{HEADER_LEN, Offset, POINTER, POINTER_LEN, QUESTION_TAIL, Question};

/// Bytes of a TTL.
const TTL_LEN: usize = 4;

/// The allowed targets of pointers: a label of QNAME, or any byte behind the question outside of TTLs. Not
/// the header and QTYPE, which may differ in each reply; not the middle of a label of QNAME, from which a
/// name could run into these; not TTLs, which count down.
pub(crate) struct Bounds {
    /// The first byte behind the question.
    question_end: usize,
    /// Bit mask of the positions of QNAME's labels, the root included.
    labels: [u8; 256 / 8],
    /// Positions of the TTLs of the records read so far.
    ttls: Vec<usize>,
}

impl Bounds {
    pub(crate) fn of(question: &Question<'_>) -> Bounds {
        let mut labels = [0; 32];
        for name in question.name.ancestors() {
            let start = question.name.len() - name.len();
            labels[start / 8] |= 1 << (start % 8);
        }
        Bounds { question_end: HEADER_LEN + question.name.len() + QUESTION_TAIL, labels, ttls: Vec::new() }
    }

    /// Adds the position of a record's TTL. Call it before the names of that record are checked.
    pub(crate) fn note_ttl(&mut self, at: usize) {
        self.ttls.push(at);
    }

    /// Whether one of these bytes belongs to a TTL.
    fn has_ttl(&self, bytes: Range<usize>) -> bool {
        let behind = self.ttls.partition_point(|ttl| ttl + TTL_LEN <= bytes.start);
        self.ttls.get(behind).is_some_and(|ttl| *ttl < bytes.end)
    }

    fn allows(&self, target: usize) -> bool {
        if target >= self.question_end {
            return true;
        }
        let in_name = target.checked_sub(HEADER_LEN);
        in_name
            .is_some_and(|start| self.labels.get(start / 8).is_some_and(|bits| bits & 1 << (start % 8) != 0))
    }

    /// Whether the name at `at`, which the parser has accepted, has only bytes that stay valid.
    pub(crate) fn allow(&self, message: &[u8], mut at: usize) -> bool {
        // Start of the current run of labels.
        let mut run = at;
        loop {
            let Some(&first) = message.get(at) else { return false };
            let size = if first >= POINTER { POINTER_LEN } else { 1 + first as usize };
            if self.has_ttl(at..at + size) {
                return false;
            }
            match first {
                0 => return true,
                POINTER.. => {
                    let Some(&second) = message.get(at + 1) else { return false };
                    let target = Offset::of_pointer([first, second]).index();
                    // They lead backwards, or the parser would have refused the name.
                    if target >= run || !self.allows(target) {
                        return false;
                    }
                    (at, run) = (target, target);
                }
                _ => at += size,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::message::Parser;

    /// A message with a question for `\003abc.example.`, type 1, class 1, and `body` behind it.
    fn allowed(body: &[u8]) -> bool {
        let mut message = wire::Header::query(1).as_bytes().to_vec();
        message.extend(b"\x04\x03abc\x07example\0\0\x01\0\x01");
        let at = message.len();
        message.extend(body);
        let (_, mut parser) = Parser::new(&message).expect("a header");
        let bounds = Bounds::of(&parser.question().expect("a question"));
        bounds.allow(&message, at)
    }

    #[test]
    fn the_questions_labels_may_be_pointed_at() {
        assert!(allowed(b"\xc0\x0c"), "the name");
        assert!(allowed(b"\x01x\xc0\x11"), "its second label");
        assert!(allowed(b"\xc0\x19"), "its root");
        assert!(allowed(b"\x01x\0"), "no pointer at all");
    }

    #[test]
    fn what_differs_between_replies_may_not() {
        assert!(!allowed(b"\xc0\x02"), "the header");
        assert!(!allowed(b"\xc0\x1a"), "the type");
        assert!(!allowed(b"\xc0\x1c"), "the class");
        assert!(!allowed(b"\xc0\x0d"), "the middle of a label, which looks like a length");
    }
    #[test]
    fn ttls_may_not_either() {
        let message = b"\0\0\0\0\0\0\0\0\0\0\0\0\x01a\0\0\x01\0\x01\0\0\0\0\x01b\xc0\x15";
        let (_, mut parser) = Parser::new(message).expect("a header");
        let mut bounds = Bounds::of(&parser.question().expect("a question"));
        assert!(bounds.allow(message, 23), "the root at 21, if that is no TTL");
        bounds.note_ttl(19);
        assert!(!bounds.allow(message, 23));
    }
}
