//! Extended errors (RFC 8914) of upstream replies, for traces. They are unsigned and affect no decision.

use std::fmt;

use wire::Type;
use wire::edns::{Edns, ErrorInfo, OptionCode};
use wire::message::Parser;

/// Most extended errors read of one reply.
const MAX_ERRORS: usize = 4;
/// Most characters kept of an error's text.
const MAX_TEXT_CHARS: usize = 120;

/// An extended error of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamError {
    /// INFO-CODE.
    pub info: ErrorInfo,
    /// EXTRA-TEXT, cut to 120 characters. Letters, digits, ASCII punctuation and spaces are kept, other
    /// characters become `?`: the text comes from another server and is printed on a terminal.
    pub text: String,
}

/// Returns the extended errors of a reply, at most four.
pub(crate) fn read(message: &[u8]) -> Vec<UpstreamError> {
    let Ok((header, mut parser)) = Parser::new(message) else { return Vec::new() };
    let [questions, records @ ..] = header.counts();
    for _ in 0..questions {
        if parser.question().is_err() {
            return Vec::new();
        }
    }
    let records: usize = records.iter().map(|&count| usize::from(count)).sum();
    for _ in 0..records {
        let Ok(record) = parser.record() else { return Vec::new() };
        if record.rtype == Type::OPT {
            let Ok(edns) = Edns::parse(message, &record) else { return Vec::new() };
            let errors = edns.options.filter(|(code, _)| *code == OptionCode::EXTENDED_ERROR);
            return errors.filter_map(|(_, data)| error(data)).take(MAX_ERRORS).collect();
        }
    }
    Vec::new()
}

/// Parses an option's data.
fn error(data: &[u8]) -> Option<UpstreamError> {
    let (code, text) = data.split_first_chunk()?;
    let text = String::from_utf8_lossy(text);
    // RFC 8914 §2: it may end in a null byte.
    let text = text.trim_end_matches('\0').chars().take(MAX_TEXT_CHARS).map(printable).collect();
    Some(UpstreamError { info: ErrorInfo(u16::from_be_bytes(*code)), text })
}

fn printable(c: char) -> char {
    match c {
        '"' => '\'',
        ' ' => ' ',
        c if c.is_ascii_graphic() || c.is_alphanumeric() => c,
        _ => '?',
    }
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "extended error {} ({})", self.info.0, self.info.name())?;
        match self.text.is_empty() {
            true => Ok(()),
            false => write!(f, " \"{}\"", self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::message::Header;

    fn shown(options: &[(OptionCode, &[u8])]) -> Vec<String> {
        let mut header = Header::query(1).reply();
        header.set_counts([0, 0, 0, 1]);
        let mut message = header.as_bytes().to_vec();
        message.extend(wire::edns::opt_with_options(1232, false, options));
        read(&message).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn extended_errors_are_shown_with_their_text() {
        let errors = [
            (OptionCode::EXTENDED_ERROR, &b"\0\x06no key fits\0"[..]),
            (OptionCode::COOKIE, b"01234567"),
            (OptionCode::EXTENDED_ERROR, b"\0\x16"),
        ];
        let expected =
            ["extended error 6 (DNSSEC Bogus) \"no key fits\"", "extended error 22 (No Reachable Authority)"];
        assert_eq!(shown(&errors), expected);
        assert_eq!(shown(&[(OptionCode::EXTENDED_ERROR, b"\0")]), [""; 0], "it breaks off");
    }

    #[test]
    fn text_of_others_cannot_control_a_terminal() {
        let text = "\0\0\x1b[31mé\u{202e}\n\"quoted\"\u{9b}\\";
        assert_eq!(
            shown(&[(OptionCode::EXTENDED_ERROR, text.as_bytes())]),
            ["extended error 0 (Other) \"?[31mé??'quoted'?\\\""]
        );
        let data = [&b"\0\0"[..], &[0xff; 3]].concat();
        assert_eq!(shown(&[(OptionCode::EXTENDED_ERROR, &data)]), ["extended error 0 (Other) \"???\""]);
    }

    #[test]
    fn what_is_kept_of_them_is_bounded() {
        let long = [&b"\0\0"[..], &[b'a'; 5000]].concat();
        let all = [(OptionCode::EXTENDED_ERROR, long.as_slice()); 9];
        let shown = shown(&all);
        assert_eq!((shown.len(), shown[0].matches('a').count()), (MAX_ERRORS, MAX_TEXT_CHARS));
    }
}
