//! Search patterns: `*` is any text and `?` any character, in any letter case.

/// A pattern that matches whole texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SearchPattern(Vec<u8>);

impl SearchPattern {
    /// Returns a pattern.
    pub(super) fn new(text: &str) -> SearchPattern {
        SearchPattern(text.to_ascii_lowercase().into_bytes())
    }

    /// Whether a text matches. Takes time in proportion to the product of both lengths at most.
    pub(super) fn matches(&self, text: &str) -> bool {
        let (pattern, text) = (&self.0[..], text.as_bytes());
        let (mut p, mut t) = (0, 0);
        // Where the last `*` stands, and the text that it has taken so far ends.
        let mut star: Option<(usize, usize)> = None;
        while t < text.len() {
            match pattern.get(p) {
                Some(b'*') => {
                    star = Some((p, t));
                    p += 1;
                }
                Some(b'?') => (p, t) = (p + 1, t + 1),
                Some(byte) if *byte == text[t].to_ascii_lowercase() => (p, t) = (p + 1, t + 1),
                _ => match star {
                    Some((at, taken)) => {
                        star = Some((at, taken + 1));
                        (p, t) = (at + 1, taken + 1);
                    }
                    None => return false,
                },
            }
        }
        pattern[p..].iter().all(|byte| *byte == b'*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_match_whole_texts_in_any_letter_case() {
        for (pattern, text, expected) in [
            ("example", "EXAMPLE", true),
            ("exam", "example", false),
            ("exam*", "example", true),
            ("*.example", "a.b.example", true),
            ("*.example", "example", false),
            ("?.example", "a.example", true),
            ("?.example", "ab.example", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("", "", true),
            ("*", "", true),
            ("a*a", "a", false),
        ] {
            assert_eq!(SearchPattern::new(pattern).matches(text), expected, "{pattern} {text}");
        }
    }

    /// The definition, which takes exponential time.
    fn slow(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), None) => slow(rest, text),
            (Some((b'*', rest)), Some((_, tail))) => slow(rest, text) || slow(pattern, tail),
            (Some((b'?', rest)), Some((_, tail))) => slow(rest, tail),
            (Some((a, rest)), Some((b, tail))) => a == b && slow(rest, tail),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn matching_is_what_the_definition_says(pattern in "[ab*?]{0,8}", text in "[ab]{0,8}") {
            let expected = slow(pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(SearchPattern::new(&pattern).matches(&text), expected);
        }
    }
}
