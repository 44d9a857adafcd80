//! Broken input: for each text the exact fault and its place, and that the next record is still read.

use super::*;
use FaultKind::*;
use wire::name::NameTextError::*;

/// A text, and its faults with line and column. `Rdata` matches any fault of that kind.
type Case = (&'static str, &'static [(FaultKind, u32, u32)]);

const CASES: &[Case] = &[
    // Bytes, quotes, parentheses.
    ("a A 192.0.2.1\0", &[(NulByte, 1, 14)]),
    ("a TXT \"x\0y\"", &[(NulByte, 1, 9)]),
    ("\0\0\0", &[(NulByte, 1, 1)]),
    ("a\\\0b A 192.0.2.1", &[(NulByte, 1, 3)]),
    ("a TXT \"x", &[(UnclosedQuote, 1, 7)]),
    ("a TXT x \"y z ; w\n", &[(UnclosedQuote, 1, 9)]),
    ("a TXT \"x\\\n", &[(UnclosedQuote, 1, 7)]),
    ("a TXT \"x\\\"\n", &[(UnclosedQuote, 1, 7)]),
    ("a TXT (\n x\n \"y\n )\n", &[(UnclosedQuote, 3, 2)]),
    ("a TXT ( \"x\n \"y\"\n )\n", &[(UnclosedQuote, 1, 9)]),
    // Strings that touch other text: Knot refuses them; BIND and NSD read each as several strings.
    ("a TXT \"\"\"x\"\"\"", &[(StrayQuote, 1, 8)]),
    ("a TXT \"x\"\"y\"", &[(StrayQuote, 1, 9)]),
    ("a TXT \"x\"y", &[(StrayQuote, 1, 9)]),
    ("a TXT x\"y\"", &[(StrayQuote, 1, 8)]),
    ("a TXT ( \"x\"\n \"y\"z\n )\n", &[(StrayQuote, 2, 4)]),
    ("a TXT k=\"y\"", &[(RDATA, 1, 7)]),
    ("a SVCB 1 . alpn=\"h2\"port=1", &[(StrayQuote, 1, 20)]),
    ("a A ( 192.0.2.1\n", &[(UnclosedParenthesis, 1, 5)]),
    ("a A ( ( 192.0.2.1 )\n ; )\n", &[(UnclosedParenthesis, 1, 5)]),
    ("a A 192.0.2.1 )", &[(UnmatchedParenthesis, 1, 15)]),
    ("a A ( 192.0.2.1 ) )", &[(UnmatchedParenthesis, 1, 19)]),
    (")", &[(UnmatchedParenthesis, 1, 1)]),
    // Owners.
    ("a..b A 192.0.2.1", &[(BadOwner(EmptyLabel), 1, 1)]),
    (".a A 192.0.2.1", &[(BadOwner(EmptyLabel), 1, 1)]),
    ("\\ ; A 192.0.2.1\nb\\256 A 192.0.2.1", &[(MissingType, 1, 3), (BadOwner(BadEscape), 2, 1)]),
    ("b\\25 A 192.0.2.1", &[(BadOwner(BadEscape), 1, 1)]),
    (
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa A 192.0.2.1",
        &[(BadOwner(LabelTooLong), 1, 1)],
    ),
    ("a..b A 192.0.2.1\n A 192.0.2.1\n A 192.0.2.1\n", &[(BadOwner(EmptyLabel), 1, 1)]),
    ("\"a\" A 192.0.2.1", &[(QuotedField, 1, 2)]),
    (" A 192.0.2.1", &[(NoPreviousOwner, 1, 2)]),
    ("\tA 192.0.2.1\n A 192.0.2.1", &[(NoPreviousOwner, 1, 2), (NoPreviousOwner, 2, 2)]),
    // TTL, class, type.
    ("a 1x A 192.0.2.1", &[(BadTtl, 1, 3)]),
    ("a 4294967296 A 192.0.2.1", &[(BadTtl, 1, 3)]),
    ("a 5s3 A 192.0.2.1", &[(BadTtl, 1, 3)]),
    ("a 0x10 A 192.0.2.1", &[(BadTtl, 1, 3)]),
    ("a 99999999999999999999999 A 192.0.2.1", &[(BadTtl, 1, 3)]),
    ("a 1 IN 2 A 192.0.2.1", &[(RepeatedTtl, 1, 8)]),
    ("a 1 2 A 192.0.2.1", &[(RepeatedTtl, 1, 5)]),
    ("a IN IN A 192.0.2.1", &[(RepeatedClass, 1, 6)]),
    ("a CH A 192.0.2.1", &[(WrongClass, 1, 3)]),
    ("a 1 CLASS2 A 192.0.2.1", &[(WrongClass, 1, 5)]),
    ("a NONE A 192.0.2.1", &[(WrongClass, 1, 3)]),
    ("a CLASS65536 A 192.0.2.1", &[(UnknownType, 1, 3)]),
    ("a AAA 192.0.2.1", &[(UnknownType, 1, 3)]),
    ("a IN -1 A 192.0.2.1", &[(UnknownType, 1, 6)]),
    ("a 1 in TYPE65536 \\# 0", &[(UnknownType, 1, 8)]),
    ("a TYPE \\# 0", &[(UnknownType, 1, 3)]),
    ("a \"A\" 192.0.2.1", &[(QuotedField, 1, 4)]),
    ("a \"5\" A 192.0.2.1", &[(QuotedField, 1, 4)]),
    ("a \"\"", &[(QuotedField, 1, 4)]),
    ("a", &[(MissingType, 1, 2)]),
    ("a 1 IN ; A", &[(MissingType, 1, 7)]),
    ("a ANY 192.0.2.1", &[(MetaType, 1, 3)]),
    ("a 1 AXFR", &[(MetaType, 1, 5)]),
    ("a OPT", &[(MetaType, 1, 3)]),
    ("a IN TSIG x", &[(MetaType, 1, 6)]),
    ("a TYPE0 \\# 0", &[(MetaType, 1, 3)]),
    ("a type255 \\# 0", &[(MetaType, 1, 3)]),
    ("a NXNAME \\# 0", &[(MetaType, 1, 3)]),
    // Data: the fault is at the token that is wrong, or after the last.
    ("a A", &[(RDATA, 1, 4)]),
    ("a A 192.0.2", &[(RDATA, 1, 5)]),
    ("a A 192.0.2.1 192.0.2.2", &[(RDATA, 1, 15)]),
    ("a A (\n 192.0.2.1\n\t192.0.2.2 )", &[(RDATA, 3, 2)]),
    ("a NS b..c", &[(RDATA, 1, 6)]),
    ("a 1 NS ; b", &[(RDATA, 1, 7)]),
    // Directives.
    ("$FOO x", &[(UnknownDirective, 1, 1)]),
    ("$", &[(UnknownDirective, 1, 1)]),
    (" $TTL 1", &[(NoPreviousOwner, 1, 2)]),
    ("a A 192.0.2.1\n $TTL 1", &[(UnknownType, 2, 2)]),
    ("$ORIGIN", &[(MissingArgument, 1, 8)]),
    ("$ORIGIN a b", &[(ExtraArgument, 1, 11)]),
    ("$ORIGIN a..b", &[(BadOrigin(EmptyLabel), 1, 9)]),
    ("$ORIGIN \"a\"", &[(QuotedField, 1, 10)]),
    ("$TTL ; 5", &[(MissingArgument, 1, 5)]),
    ("$TTL x", &[(BadTtl, 1, 6)]),
    ("$TTL 4294967296", &[(BadTtl, 1, 6)]),
    ("$TTL 1 2", &[(ExtraArgument, 1, 8)]),
    ("$TTL \"1\"", &[(QuotedField, 1, 7)]),
    ("$INCLUDE", &[(MissingArgument, 1, 9)]),
    ("$INCLUDE \"\"", &[(MissingArgument, 1, 11)]),
    ("$INCLUDE f a..b", &[(BadOrigin(EmptyLabel), 1, 12)]),
    ("$INCLUDE f a b", &[(ExtraArgument, 1, 14)]),
    // $GENERATE.
    ("$GENERATE", &[(MissingArgument, 1, 10)]),
    ("$GENERATE 1-2 a$ A", &[(MissingArgument, 1, 19)]),
    ("$GENERATE 1-2 a$", &[(MissingType, 1, 17)]),
    ("$GENERATE 1 a$ A 192.0.2.$", &[(BadRange, 1, 11)]),
    ("$GENERATE 2-1 a$ A 192.0.2.$", &[(BadRange, 1, 11)]),
    ("$GENERATE 1-2/0 a$ A 192.0.2.$", &[(BadRange, 1, 11)]),
    ("$GENERATE -1-2 a$ A 192.0.2.$", &[(BadRange, 1, 11)]),
    ("$GENERATE 0-2147483648 a$ A 192.0.2.$", &[(BadRange, 1, 11)]),
    ("$GENERATE 0-2147483647 a$ A 192.0.2.$", &[(TooManyGenerated, 1, 11)]),
    ("$GENERATE 1-2 a${x} A 192.0.2.$", &[(BadModifier, 1, 15)]),
    ("$GENERATE 1-2 a${1 A 192.0.2.$", &[(BadModifier, 1, 15)]),
    ("$GENERATE 1-2 a$ A 192.0.2.${0,1,q}", &[(BadModifier, 1, 20)]),
    ("$GENERATE 1-2 a$ A 192.0.2.${0,256}", &[(BadModifier, 1, 20)]),
    // BIND's bounds: 127 characters, values of 32 bits with a sign.
    ("$GENERATE 1-2 a$ TXT \"x${0,128}\"", &[(BadModifier, 1, 23)]),
    ("$GENERATE 1-2 a${0,128,n} A 192.0.2.9", &[(BadModifier, 1, 15)]),
    ("$GENERATE 1-2 a${2147483646} A 192.0.2.9", &[(BadModifier, 1, 15)]),
    ("$GENERATE 1-2 a${-2147483650} A 192.0.2.9", &[(BadModifier, 1, 15)]),
    ("$GENERATE 1-2 a$ ANY 192.0.2.$", &[(MetaType, 1, 18)]),
    ("$GENERATE 1-2 a.. A 192.0.2.$", &[(BadOwner(EmptyLabel), 1, 15)]),
    ("$GENERATE 255-300 a$ 5 A 192.0.2.$", &[(RDATA, 1, 26)]),
    ("$GENERATE 1-2 a$ A \"192.0.2.$ (\"", &[(UnclosedParenthesis, 1, 21)]),
];

/// Matches every fault of record data: `wire::rdata` distinguishes them.
const RDATA: FaultKind = Rejected;

#[test]
fn each_fault_is_named_and_placed_and_the_rest_is_read() {
    for (text, want) in CASES {
        for tail in ["\nz A 192.0.2.1\n", "\r\nz A 192.0.2.1"] {
            let (lines, report) = scan(&format!("{text}{tail}"));
            let found: Vec<_> = kinds(&report)
                .into_iter()
                .map(|(kind, l, c)| (if matches!(kind, Rdata(_)) { RDATA } else { kind }, l, c))
                .collect();
            assert_eq!(found, *want, "{text:?}");
            assert!(lines.last().is_some_and(|l| l.starts_with("z.")), "{text:?}: {lines:?}");
            assert!(!report.is_clean() && !report.stopped);
            for fault in &report.faults {
                let excerpt = fault.excerpt.as_ref().expect("an excerpt");
                assert!(excerpt.from <= excerpt.text.chars().count() + 1, "{text:?}: {}", fault.pretty());
                assert!(!fault.message.is_empty() && !fault.message.contains('\n'));
            }
        }
    }
}

#[test]
fn faults_in_one_run_come_in_order() {
    let text = "a A 192.0.2.1\nb A x\nc 5 6 A 192.0.2.1\nd TXT \"\ne A 192.0.2.1 )\nf A 192.0.2.1\n";
    let (lines, report) = scan(text);
    assert_eq!(lines.len(), 2);
    assert_eq!(report.faults.iter().map(|f| f.line).collect::<Vec<_>>(), [2, 3, 4, 5]);
    let pretty = report.faults[1].pretty().to_string();
    assert_eq!(pretty, "z:3:5: error: second TTL `6`\n  |\n3 | c 5 6 A 192.0.2.1\n  |     ^");
}

#[test]
fn made_records_say_which() {
    let (lines, report) = scan("$GENERATE 254-300 a$ A 192.0.2.$\n");
    assert_eq!(lines.len(), 2);
    assert!(report.faults[0].message.ends_with("(in the record made for 256)"), "{}", report.faults[0]);
    assert_eq!(report.errors, 1);
}

#[test]
fn what_is_read_but_hardly_meant_gets_a_warning() {
    let (lines, report) = scan("a TXT v=DKIM1; k=rsa\nb TXT x ; y\nc TXT \"z\";y\n");
    assert_eq!(kinds(&report), [(CutByComment, 1, 7)]);
    assert_eq!((lines.len(), report.errors), (3, 0));
    let (_, report) = scan("$ORIGIN sub.x\n$ORIGIN sub.x.\n$ORIGIN y\n");
    assert_eq!(kinds(&report), [(OriginTwice, 1, 9)]);
}

#[test]
fn a_string_that_is_too_long_is_shown_in_parts() {
    let (_, report) = scan(&format!("a TXT \"{}\\\"{}\"\n", "p".repeat(254), "q".repeat(10)));
    let note = report.faults[0].note.as_deref().expect("a note");
    let parts = format!("\"{}\\\"\" \"{}\"", "p".repeat(254), "q".repeat(10));
    assert_eq!(note, format!("write it as several strings: {parts}"));
    assert!(report.faults[0].excerpt.is_some());
    // The proposed text is valid.
    let (lines, report) = scan(&format!("a TXT {parts}\n"));
    assert_eq!((lines.len(), report.faults.len()), (1, 0));
}

#[test]
fn a_string_that_is_too_long_counts_as_several_where_that_is_wanted() {
    let split = ScanConfig { split_strings: true, ..config() };
    let (p, q) = ("p".repeat(254), "q".repeat(300));
    let (keep, report) = scan_with(format!("a TXT x \"{p}\\\"{q}\" \"\" y\n").as_bytes(), &split);
    let (q, rest) = q.split_at(255);
    let parts = format!("a TXT x \"{p}\\\"\" \"{q}\" \"{rest}\" \"\" y\n");
    assert_eq!(keep.lines, records(&parts));
    assert_eq!(kinds(&report), [(Rdata(wire::rdata::TextFaultKind::StringTooLong), 1, 10)]);
    assert_eq!((report.errors, report.faults[0].severity), (0, Severity::Warning));
    // Only if there is no other fault, in TXT, and as far as a record can hold it.
    let long = "z".repeat(256);
    let faults = [
        format!("a TXT {long} \\256\n"),
        format!("a HINFO {long} x\n"),
        format!("a TXT {}\n", "z".repeat(65_300)),
    ];
    for text in faults {
        let (keep, report) = scan_with(text.as_bytes(), &split);
        assert_eq!((keep.lines.len(), report.errors), (0, 1), "{text:.20}");
        assert_eq!(report.faults[0].severity, Severity::Error);
        assert!(matches!(report.faults[0].kind, Rdata(_)), "{:?}", report.faults[0].kind);
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let mut small = config();
        small.limits = Limits { entry_text: 100, generated: 1000, ..small.limits };
        let _ = scan_with(&bytes, &small);
    }

    #[test]
    fn nor_does_any_sequence_of_words(
        picks in proptest::collection::vec((0usize..WORDS.len(), 0usize..6), 0..120),
        limit in 64usize..400,
    ) {
        let mut small = config();
        small.limits = Limits { entry_text: limit, generated: 1000, errors: 1000, ..small.limits };
        let text: String = picks.iter().map(|&(w, s)| [WORDS[w], [" ", "", "\n", "\n ", "\t", "\r\n"][s]].concat()).collect();
        let (keep, report) = scan_with(text.as_bytes(), &small);
        prop_assert_eq!(keep.lines.len() as u64, report.records);
        // After any fault, a good record at the end is read.
        let (keep, _) = scan_with(format!("{text}\n\n\n)\nzz A 192.0.2.1\n").as_bytes(), &small);
        prop_assert!(keep.lines.last().is_some_and(|l| l.starts_with("zz.")));
    }
}

const WORDS: &[&str] = &[
    "a",
    "b.c",
    "@",
    "A",
    "NS",
    "TXT",
    "IN",
    "60",
    "1h",
    "192.0.2.1",
    "\"x y\"",
    "\"",
    "(",
    ")",
    ";",
    "; c",
    "\\",
    "\\.",
    "$ORIGIN",
    "$TTL",
    "$INCLUDE",
    "$GENERATE",
    "1-3",
    "a$",
    "${0,2,x}",
    "$",
    "\0",
    "..",
    "\\#",
    "0",
    "TYPE9",
    "=",
    "k=",
];
