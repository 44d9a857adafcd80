//! Compression pointers that stay right when a message is copied behind another header and question.

use wire::message::{HEADER_LEN, Offset, POINTER, QUESTION_TAIL, Question};

/// Where pointers may lead: to a label of the question's name, or behind the question. The header is another one in each
/// reply, and so may be the question's type; and from the middle of a label one could get there.
pub(crate) struct Bounds {
    /// The first byte behind the question.
    question_end: usize,
    /// The labels of its name, by where they start; the root, too.
    labels: [u8; 256 / 8],
}

impl Bounds {
    pub(crate) fn of(question: &Question<'_>) -> Bounds {
        let mut labels = [0; 32];
        for name in question.name.ancestors() {
            let start = question.name.len() - name.len();
            labels[start / 8] |= 1 << (start % 8);
        }
        Bounds { question_end: HEADER_LEN + question.name.len() + QUESTION_TAIL, labels }
    }

    fn allows(&self, target: usize) -> bool {
        if target >= self.question_end {
            return true;
        }
        let in_name = target.checked_sub(HEADER_LEN);
        in_name
            .is_some_and(|start| self.labels.get(start / 8).is_some_and(|bits| bits & 1 << (start % 8) != 0))
    }

    /// Whether all pointers of the name at `at`, which the parser has read, lead to where they may.
    pub(crate) fn allow(&self, message: &[u8], mut at: usize) -> bool {
        loop {
            match message.get(at) {
                None => return false,
                Some(0) => return true,
                Some(&first @ POINTER..) => {
                    let Some(&second) = message.get(at + 1) else { return false };
                    let target = Offset::of_pointer([first, second]).index();
                    // They lead backwards, or the parser had refused the name.
                    if target >= at || !self.allows(target) {
                        return false;
                    }
                    at = target;
                }
                Some(&label) => at += label as usize + 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::message::Parser;

    /// A message with a question for `\003abc.example.`, type 1, class 1, and these bytes behind it.
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
}
