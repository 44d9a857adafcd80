//! Long record data on several lines, in parentheses and with comments: readable, and valid in a zone file.

use std::fmt::Write as _;

use wire::Type;

/// Columns for the data: with the tabs in front of it, a line fits into 80 columns.
const WIDTH: usize = 48;
/// The indentation of each further line.
const INDENT: &str = "\n\t\t\t\t";
/// The names of the SOA's numbers, in their order (RFC 1035 §3.3.13).
const NUMBERS: [&str; 5] = ["serial", "refresh", "retry", "expire", "minimum"];

/// Returns the data of a record on several lines; `None` if one line is enough.
pub(crate) fn of(rtype: Type, rdata: &str) -> Option<String> {
    match rtype {
        Type::SOA => soa(rdata),
        _ if rdata.len() > WIDTH => Some(long(rtype, rdata)),
        _ => None,
    }
}

fn soa(rdata: &str) -> Option<String> {
    let fields = fields(rdata);
    let [mname, rname, numbers @ ..] = &fields[..] else { return None };
    let mut out = format!("{mname} {rname} (");
    for (number, what) in numbers.iter().zip(NUMBERS) {
        let spelt = match what {
            "serial" => None,
            _ => number.parse().ok().map(time),
        };
        let spelt = spelt.map_or(String::new(), |time| format!(" ({time})"));
        let _ = write!(out, "{INDENT}{number:<10} ; {what}{spelt}");
    }
    let _ = write!(out, "{INDENT})");
    Some(out)
}

/// Puts as many fields on a line as fit. The last field of some types may be cut anywhere.
fn long(rtype: Type, rdata: &str) -> String {
    let fields = fields(rdata);
    let (mut out, mut column) = (String::from("("), 1);
    let last = fields.len().saturating_sub(1);
    for (at, field) in fields.iter().enumerate() {
        let may_cut = at == last && ends_in_one_value(rtype);
        let pieces: Vec<&str> = match may_cut {
            true => cut(field),
            false => vec![field],
        };
        for piece in pieces {
            if column > 1 && column + 1 + piece.len() > WIDTH {
                out += INDENT;
                column = 0;
            } else {
                out.push(' ');
                column += 1;
            }
            out += piece;
            column += piece.len();
        }
    }
    out += " )";
    out
}

/// Returns whether the data of a type ends in one value of base 16 or 64, in which white space is ignored.
pub(crate) fn ends_in_one_value(rtype: Type) -> bool {
    let types = [
        "DNSKEY",
        "CDNSKEY",
        "RRSIG",
        "DS",
        "CDS",
        "TLSA",
        "SMIMEA",
        "SSHFP",
        "CERT",
        "OPENPGPKEY",
        "ZONEMD",
    ];
    types.iter().filter_map(|text| text.parse::<Type>().ok()).any(|t| t == rtype)
}

/// Cuts an ASCII value into pieces of at most [`WIDTH`] characters.
fn cut(value: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = value;
    while let Some((piece, after)) = rest.split_at_checked(WIDTH) {
        pieces.push(piece);
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(rest);
    }
    pieces
}

/// Returns the fields of the data, split at spaces outside of quotes.
pub(crate) fn fields(rdata: &str) -> Vec<&str> {
    let (mut fields, mut start, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (at, c) in rdata.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            ' ' if !quoted => {
                fields.push(&rdata[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    fields.push(&rdata[start..]);
    fields.retain(|field| !field.is_empty());
    fields
}

/// Returns a time in seconds as words: `1 week 2 days`.
pub(crate) fn time(seconds: u64) -> String {
    let units = [(604_800, "week"), (86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")];
    let mut rest = seconds;
    let mut words = Vec::new();
    for (length, unit) in units {
        let count = rest / length;
        rest %= length;
        if count > 0 {
            words.push(format!("{count} {unit}{}", if count == 1 { "" } else { "s" }));
        }
    }
    if words.is_empty() { "0 seconds".to_owned() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_numbers_of_soa_have_names() {
        let text = of(Type::SOA, "ns1.example. admin.example. 7 3600 600 604800 90061").expect("lines");
        assert_eq!(
            text.split(INDENT).collect::<Vec<_>>(),
            [
                "ns1.example. admin.example. (",
                "7          ; serial",
                "3600       ; refresh (1 hour)",
                "600        ; retry (10 minutes)",
                "604800     ; expire (1 week)",
                "90061      ; minimum (1 day 1 hour 1 minute 1 second)",
                ")"
            ]
        );
    }

    #[test]
    fn strings_stay_whole_and_keys_do_not() {
        let key = "A".repeat(100);
        let text = of("DNSKEY".parse().expect("a type"), &format!("257 3 13 {key}")).expect("lines");
        assert!(text.lines().all(|line| line.trim().len() <= WIDTH + 2), "{text}");
        let string = format!("\"{} {}\"", "b".repeat(60), "c".repeat(60));
        assert!(of(Type::TXT, &format!("\"a\" {string}")).expect("lines").contains(&string));
        assert_eq!(of(Type::A, "192.0.2.1"), None);
    }

    proptest! {
        /// A reader of zone files sees the same words.
        #[test]
        fn nothing_is_lost(words in prop::collection::vec("[a-z0-9.]{1,70}|\"[a-z ]{0,90}\"", 1..12)) {
            let rdata = words.join(" ");
            let text = of(Type::TXT, &rdata).unwrap_or_else(|| rdata.clone());
            let text = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap_or(&text).replace(INDENT, " ");
            prop_assert_eq!(fields(&text), fields(&rdata));
        }
    }
}
