//! The scanner against others: text that is written out reads back the same, and the `domain` crate, an
//! independent reader, finds the same records.

use super::*;
use domain::base::iana::Class as TheirClass;
use domain::base::name::ToName;
use domain::base::rdata::{ComposeRecordData, RecordData};
use domain::zonefile::inplace::{Entry, Zonefile};
use wire::rdata;

/// KeptRecords as (owner, TTL, type, data).
#[derive(Default, Debug, PartialEq, Eq)]
struct KeptRecords(Vec<(NameBuf, u32, Type, Vec<u8>)>);

impl Sink for KeptRecords {
    fn record(&mut self, r: &Record<'_>) -> Result<(), Rejection> {
        self.0.push((r.owner.to_buf(), r.ttl.as_secs(), r.rtype, r.rdata.to_vec()));
        Ok(())
    }
}

fn ours(text: &[u8]) -> KeptRecords {
    let mut found = KeptRecords::default();
    let report = read(TextSource::bytes("z", text), &config(), &mut found);
    assert!(report.faults.is_empty(), "{}", report.faults[0].pretty());
    found
}

/// The same with the `domain` crate.
fn theirs(text: &[u8]) -> KeptRecords {
    let mut file = Zonefile::load(&mut &text[..]).unwrap();
    file.set_origin("x.".parse().unwrap());
    file.set_default_class(TheirClass::IN);
    let mut found = KeptRecords::default();
    while let Some(entry) = file.next_entry().unwrap() {
        let Entry::Record(record) = entry else { panic!("no other entries are made") };
        let mut data = Vec::new();
        record.data().compose_rdata(&mut data).unwrap();
        let owner: Vec<u8> = record.owner().to_vec().as_slice().to_vec();
        let owner = Name::from_wire(&owner).unwrap().to_buf();
        found.0.push((owner, record.ttl().as_secs(), Type(record.data().rtype().to_int()), data));
    }
    found
}

fn any_name() -> impl Strategy<Value = NameBuf> {
    let label = prop_oneof![
        3 => proptest::collection::vec(proptest::sample::select(&b"abcXYZ019-_*"[..]), 1..8),
        1 => proptest::collection::vec(any::<u8>(), 1..20),
    ];
    proptest::collection::vec(label, 0..5).prop_map(|labels| {
        labels.iter().fold(NameBuf::ROOT, |name, label| NameBuf::prepend(label, name.as_name()).unwrap())
    })
}

/// Valid data of a few types that are parsed differently.
fn any_data() -> impl Strategy<Value = (Type, Vec<u8>)> {
    let strings = proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..4);
    prop_oneof![
        any::<[u8; 4]>().prop_map(|a| (Type::A, a.to_vec())),
        any::<[u8; 16]>().prop_map(|a| (Type::AAAA, a.to_vec())),
        any_name().prop_map(|n| (Type::NS, n.as_name().as_wire().to_vec())),
        (any::<u16>(), any_name())
            .prop_map(|(p, n)| (Type::MX, [&p.to_be_bytes()[..], n.as_name().as_wire()].concat())),
        (any_name(), any_name(), any::<[u8; 20]>())
            .prop_map(|(m, r, n)| (Type::SOA, [m.as_name().as_wire(), r.as_name().as_wire(), &n].concat())),
        strings.prop_map(|strings| {
            (
                Type::TXT,
                strings
                    .iter()
                    .flat_map(|s| std::iter::once(s.len() as u8).chain(s.iter().copied()))
                    .collect(),
            )
        }),
        (any::<[u8; 4]>(), proptest::collection::vec(any::<u8>(), 32))
            .prop_map(|(front, digest)| { (Type::DS, [&front[..3], &[2], &digest].concat()) }),
        proptest::collection::vec(any::<u8>(), 0..50).prop_map(|data| (Type(65280), data)),
    ]
}

proptest! {
    #[test]
    fn what_is_written_reads_back(
        records in proptest::collection::vec((any_name(), 0u32..1 << 31, any_data(), 0usize..4), 0..20),
    ) {
        let (mut text, mut want) = (String::new(), KeptRecords::default());
        for (owner, ttl, (rtype, data), style) in records {
            // Now and then the owner is left out, the line is broken, the fields are in another order.
            let repeated = want.0.last().is_some_and(|r| r.0.as_name().as_wire() == owner.as_name().as_wire());
            if !repeated || style == 0 {
                write!(text, "{owner}").unwrap();
            }
            match style {
                0 => write!(text, "\t{ttl} IN {rtype} ").unwrap(),
                1 => write!(text, " ( IN {ttl} ; (\n {rtype}\n\t").unwrap(),
                _ => write!(text, "  {ttl}\t{rtype}\t").unwrap(),
            }
            rdata::write_text(rtype, &data, &mut text).unwrap();
            text.push_str(["\n", "\n )\n", " ; \"\r\n", "\n\n"][style]);
            want.0.push((owner, ttl, rtype, data));
        }
        let found = ours(text.as_bytes());
        prop_assert_eq!(found.0.len(), want.0.len());
        for (found, want) in found.0.iter().zip(&want.0) {
            prop_assert_eq!(found.0.as_name().as_wire(), want.0.as_name().as_wire());
            prop_assert_eq!((found.1, found.2, &found.3), (want.1, want.2, &want.3));
        }
    }

    #[test]
    fn the_domain_crate_reads_the_same(
        records in proptest::collection::vec((0usize..4, 0u32..100_000, 0usize..8, 0usize..4), 1..30),
    ) {
        const OWNERS: [&str; 4] = ["www", "a\\.b.c", "@", "mail.y."];
        const DATA: [&str; 8] = [
            "A 192.0.2.1",
            "AAAA 2001:db8::1",
            "NS ns1",
            "MX 10 ( mail.\\097\n )",
            "TXT \"a ; b\" c\\\"d ( e\n\"(\" ) ; f",
            "SOA ns1 host\\.master 1 2 3 4 5",
            "DS 12345 13 2 ( 0123456789abcdef0123456789abcdef\n 0123456789abcdef0123456789abcdef )",
            "TYPE65280 \\# 3 010203",
        ];
        let mut text = String::new();
        for (i, &(owner, ttl, data, style)) in records.iter().enumerate() {
            if i == 0 || style > 0 {
                text.push_str(OWNERS[owner]);
            }
            let data = DATA[data];
            match style {
                0 | 1 => writeln!(text, " {ttl} IN {data}").unwrap(),
                2 => writeln!(text, "\tIN {ttl}  {data} ; comment").unwrap(),
                _ => writeln!(text, " {ttl} {data}\n\n; comment").unwrap(),
            }
        }
        prop_assert_eq!(ours(text.as_bytes()), theirs(text.as_bytes()));
    }
}

/// BIND reads a file, and the text that we wrote after reading it: both must have the same records.
#[test]
fn bind_reads_the_same() {
    if std::process::Command::new("named-compilezone").arg("-h").output().is_err() {
        return testkit::left_out("named-compilezone is missing: BIND does not read what the scanner writes");
    }
    const TEXT: &str = r#"$TTL 1h
@ IN SOA ns1 host\.master ( 1 ; serial
  2h 30m
  1w2d 300 ) ; end
	NS	ns1
	60 IN NS ns2.other.
ns1 IN 30 A 192.0.2.1
    AAAA 2001:db8::1
$ORIGIN sub
a\.b.c TXT ( "one ; two" three\;four "five \"six\"" "" \065\066
  "(not open" ) ; tail "quote
@ MX 10 mail
mail A ( 192.0.2.2 )
* 1h TXT "a;b" "c\009d" \\ "e\\"
$ORIGIN x.
$GENERATE 1-20/3 host-${0,3,d} A 10.0.0.$
$GENERATE 0-2 ${0,3,n}.r 600 PTR p${10,2,X}.$$.
$GENERATE 7-8 t$ TXT "a $ \"b $\"" ; comment
k TYPE65280 \# 3 ( 0102
 03 )
k TYPE1 \# 4 c0000203
n NAPTR 100 50 "s" "http+N2L+N2C+N2R" ""   www
c CAA 0 issue "ca.example; x=y"
"#;
    let dir = tempfile::tempdir().unwrap();
    let compiled = |name: &str, text: &str| {
        write(dir.path(), name, text);
        let lax = ["-k", "-n", "-r", "-m", "-M", "-S"].into_iter().flat_map(|check| [check, "ignore"]);
        let output = std::process::Command::new("named-compilezone")
            .args(["-q", "-i", "none", "-s", "full", "-o", "-"])
            .args(lax)
            .arg("x.")
            .arg(dir.path().join(name))
            .output()
            .expect("named-compilezone");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let mut written = String::new();
    for (owner, ttl, rtype, data) in ours(TEXT.as_bytes()).0 {
        write!(written, "{owner} {ttl} IN {rtype} ").unwrap();
        rdata::write_text(rtype, &data, &mut written).unwrap();
        written.push('\n');
    }
    let (direct, again) = (compiled("direct", TEXT), compiled("again", &written));
    assert!(direct.lines().count() > 20);
    assert_eq!(direct, again);
}
