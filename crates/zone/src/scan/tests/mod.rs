//! Tests of the scanner as a whole: text in, records and faults out.

use super::*;
use proptest::prelude::*;
use std::fmt::Write as _;
use std::path::Path;

/// Stores records as lines `owner ttl type rdata-in-hex`, and rejects those that a test wants rejected.
#[derive(Default)]
struct Keep {
    lines: Vec<String>,
    places: Vec<(u32, u32)>,
    previous: Option<NameBuf>,
    reject: Option<(Type, Rejection)>,
    blocks: u32,
    break_after: Option<u32>,
}

impl Sink for Keep {
    fn record(&mut self, r: &Record<'_>) -> Result<(), Rejection> {
        if r.same_owner {
            assert_eq!(
                self.previous.map(|p| p.as_name().as_wire().to_vec()),
                Some(r.owner.as_wire().to_vec())
            );
        }
        self.previous = Some(r.owner.to_buf());
        if let Some((rtype, rejection)) = &self.reject
            && *rtype == r.rtype
        {
            return Err(rejection.clone());
        }
        let mut line = format!("{} {} {} ", r.owner, r.ttl, r.rtype);
        r.rdata.iter().for_each(|o| write!(line, "{o:02x}").unwrap());
        self.lines.push(line);
        self.places.push((r.place.file, r.place.line));
        Ok(())
    }

    fn progress(&mut self, progress: ScanProgress) -> ControlFlow<()> {
        self.blocks += 1;
        assert!(progress.total == 0 || progress.read <= progress.total);
        if self.break_after == Some(self.blocks) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn config() -> ScanConfig {
    ScanConfig {
        default_ttl: Some(Ttl::from_secs(60)),
        ..ScanConfig::new("x.".parse::<NameBuf>().unwrap().as_name())
    }
}

fn scan_with(text: &[u8], config: &ScanConfig) -> (Keep, ScanReport) {
    let mut keep = Keep::default();
    let report = read(TextSource::bytes("z", text), config, &mut keep);
    (keep, report)
}

fn scan(text: &str) -> (Vec<String>, ScanReport) {
    let (keep, report) = scan_with(text.as_bytes(), &config());
    (keep.lines, report)
}

/// Returns the records of a text without faults, owners and data shortened for comparison.
fn records(text: &str) -> Vec<String> {
    let (lines, report) = scan(text);
    assert!(report.faults.is_empty(), "{:.200}: {}", text, report.faults[0].pretty());
    assert_eq!(report.records, lines.len() as u64);
    lines
}

const A1: &str = "A c0000201";

fn a(owner_and_ttl: &str) -> String {
    format!("{owner_and_ttl} {A1}")
}

#[test]
fn owners_ttls_and_classes_in_every_order() {
    let text =
        "a 5 IN A 192.0.2.1\nb IN 6 A 192.0.2.1\nc 7 A 192.0.2.1\nd IN A 192.0.2.1\n\te.y. 1h A 192.0.2.1\n";
    let (lines, report) = scan(text);
    assert_eq!(lines, [a("a.x. 5"), a("b.x. 6"), a("c.x. 7"), a("d.x. 60")]);
    assert_eq!(report.faults[0].kind, FaultKind::UnknownType);
    assert_eq!(
        records(
            "A A 192.0.2.1\n A 192.0.2.1\nIN IN A 192.0.2.1\n3600 3600 a 192.0.2.1\n@ class1 type1 192.0.2.1"
        ),
        [a("A.x. 60"), a("A.x. 60"), a("IN.x. 60"), a("3600.x. 3600"), a("x. 60")]
    );
}

#[test]
fn blanks_comments_and_line_ends() {
    let want = [a("a.x. 60"), a("a.x. 60")];
    for text in [
        "a A 192.0.2.1\n A 192.0.2.1",
        "a A 192.0.2.1\r\n\tA 192.0.2.1\r\n",
        "; c \" ( \\\n\n  \n \t; c\na A 192.0.2.1;c\n  A 192.0.2.1 ; \"c\n",
        "a A(192.0.2.1)\n A ( ; c )\n\n192.0.2.1 ; c\n)\n",
        "a ( A\n192.0.2.1 )\n (A) 192.0.2.1\n",
        "\u{feff}a A 192.0.2.1\n A 192.0.2.1\n",
        "a A ((192.0.2.1\n)) ; x\n A \\# 4 ( c000\n 0201 )",
    ] {
        assert_eq!(records(text), want, "{text:?}");
    }
    // `(` in the first column is not a blank: the owner follows it, as in BIND.
    assert_eq!(records("( a A 192.0.2.1 )"), [a("a.x. 60")]);
}

#[test]
fn quotes_and_escapes() {
    let strings = "05783b28225c".to_owned() + "047920287a" + "00" + "0170" + "0171" + "0172";
    assert_eq!(
        records("a\\;b TXT \"x;(\\\"\\\\\" y\\ \\(z \"\" \"p\" \"q\"(\"r\")\n"),
        [format!("a\\;b.x. 60 TXT {strings}")]
    );
    assert_eq!(records("a\\.b\\001 A 192.0.2.1"), [a("a\\.b\\001.x. 60")]);
    assert_eq!(records("\\$a A 192.0.2.1"), [a("\\$a.x. 60")]);
}

#[test]
fn origin_and_ttl_directives() {
    let text = "a A 192.0.2.1\n$ORIGIN y\na A 192.0.2.1\n$origin z.\n A 192.0.2.1\na A 192.0.2.1\n@ A 192.0.2.1\n\
        $ORIGIN .\nb 3 A 192.0.2.1\n$TTL 1h1s\nb A 192.0.2.1\n";
    let want = ["a.x. 60", "a.y.x. 60", "a.y.x. 60", "a.z. 60", "z. 60", "b. 3", "b. 3601"];
    assert_eq!(records(text), want.map(a));
}

#[test]
fn inherited_ttls() {
    let bare = ScanConfig { default_ttl: None, ..config() };
    let (keep, report) = scan_with(b"a 5 A 192.0.2.1\nb A 192.0.2.1\nb A 192.0.2.1\n", &bare);
    assert_eq!(keep.lines, [a("a.x. 5"), a("b.x. 5"), a("b.x. 5")]);
    assert_eq!(kinds(&report), [(FaultKind::TtlFromPrevious, 2, 3)]);
    let (keep, report) = scan_with(b"@ SOA a b 1 2 3 4 77\nb A 192.0.2.1\n", &bare);
    assert!(keep.lines[0].starts_with("x. 77 SOA"));
    assert_eq!(keep.lines[1], a("b.x. 77"));
    assert_eq!(kinds(&report), [(FaultKind::TtlFromSoa, 1, 3)]);
    assert!(report.is_clean());
    let (_, report) = scan_with(b"b A 192.0.2.1\n", &bare);
    assert_eq!(kinds(&report), [(FaultKind::NoTtl, 1, 3)]);
    let (keep, report) = scan_with(b"b 2147483648 A 192.0.2.1\n$TTL 3000000000\nb A 192.0.2.1\n", &bare);
    assert_eq!(keep.lines, [a("b.x. 0"), a("b.x. 0")]);
    assert_eq!(kinds(&report), [(FaultKind::TtlTooLarge, 1, 3), (FaultKind::TtlTooLarge, 2, 6)]);
}

#[test]
fn generate_as_bind_does() {
    let text = "$GENERATE 1-3/2 a${0,3,d}.$$.\\$ 10 IN A 192.0.2.$\n$GENERATE 10-11 n${0,7,n}. PTR q${-1,0,x}\n\
        $GENERATE 301-301 k${-304,4} TXT ${0,2,n}:${0,0,N}:${-301,3,n}:${-300,5,n}:${-304,0,x}:${0,5,o}:${0,4,X}\n\
        $GENERATE 7-7 t TXT \"x $ \\\"y z\\\"\"\n$GENERATE 7-7 t TXT \"x $\" \"y\"\n";
    let hex = |text: &str| text.bytes().fold(format!("{:02x}", text.len()), |s, b| s + &format!("{b:02x}"));
    let (want_nibbles, spaced) = (hex("d.2.1:D.2.1:0.0:1.0.0:fffffffd:00455:012D"), hex("x 7") + "0179");
    assert_eq!(
        records(text),
        [
            "a001.\\$.\\$.x. 10 A c0000201".to_owned(),
            "a003.\\$.\\$.x. 10 A c0000203".to_owned(),
            format!("na.0.0.0. 60 PTR {}017800", hex("q9")),
            format!("nb.0.0.0. 60 PTR {}017800", hex("qa")),
            format!("k-003.x. 60 TXT {want_nibbles}"),
            format!("t.x. 60 TXT {}{}{}", hex("x"), hex("7"), hex("y z")),
            format!("t.x. 60 TXT {spaced}"),
        ]
    );
}

#[test]
fn limits_hold() {
    let mut config = config();
    config.limits = Limits { errors: 3, warnings: 1, generated: 10, entry_text: 200, ..config.limits };
    let (keep, report) = scan_with("a BAD\n".repeat(10).as_bytes(), &config);
    assert!(keep.lines.is_empty() && report.stopped);
    assert_eq!((report.errors, report.faults.len()), (3, 3));
    let (_, report) = scan_with("a 3000000000 A 192.0.2.1\n".repeat(10).as_bytes(), &config);
    assert_eq!((report.warnings, report.faults.len(), report.is_clean()), (10, 1, true));
    let (keep, report) = scan_with(b"$GENERATE 1-8 a$ A 192.0.2.1\n$GENERATE 1-3 a$ A 192.0.2.1\n", &config);
    assert_eq!((keep.lines.len(), kinds(&report)), (8, vec![(FaultKind::TooManyGenerated, 2, 11)]));
    let long = format!(
        "a TXT {}\nb A 192.0.2.1\nc TXT (\n{}) \nd A 192.0.2.1\n",
        "x ".repeat(200),
        "y\n".repeat(200)
    );
    let (keep, report) = scan_with(long.as_bytes(), &config);
    assert_eq!(keep.lines, [a("b.x. 60"), a("d.x. 60")]);
    assert_eq!(kinds(&report), [(FaultKind::EntryTooLong, 1, 1), (FaultKind::EntryTooLong, 3, 1)]);
}

/// Endless text of one line, to test that memory does not grow with it.
struct Endless {
    left: usize,
    tail: &'static [u8],
}

impl Read for Endless {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return self.tail.read(to);
        }
        let n = to.len().min(self.left);
        assert!(n <= 4 << 20, "the window has grown to {n}");
        to[..n].fill(b'z');
        self.left -= n;
        Ok(n)
    }
}

#[test]
fn an_endless_line_takes_bounded_memory() {
    for (front, kind) in
        [("", FaultKind::EntryTooLong), ("\"", FaultKind::EntryTooLong), (";", FaultKind::EntryTooLong)]
    {
        let text = io::Cursor::new(format!("a A 192.0.2.1\n{front}"));
        let tail = b"\n A 192.0.2.1\nb A 192.0.2.1";
        let reader = |left: usize| text.clone().chain(Endless { left, tail });
        let mut keep = Keep::default();
        let long = 3 << 19;
        let report = read(TextSource::reader("z", reader(long)), &config(), &mut keep);
        assert_eq!(kinds(&report), [(kind, 2, 1)]);
        assert_eq!(keep.places.last(), Some(&(0, 4)));
        assert_eq!(report.bytes, long as u64 + 41 + front.len() as u64);
        // If no line ends for longer, the rest is not read.
        let report = read(TextSource::reader("z", reader(1 << 40)), &config(), &mut keep);
        assert_eq!(kinds(&report), [(kind, 2, 1), (FaultKind::NoText, 2, 0)]);
        assert!(report.stopped && report.bytes < 16 << 20, "{} bytes read", report.bytes);
    }
}

#[test]
fn an_open_parenthesis_costs_its_record_only() {
    let mut text = String::from("a A 192.0.2.1\nb TXT ( x\n y\n  \"z\"\nc A 192.0.2.1\n");
    let (lines, report) = scan(&text);
    assert_eq!(lines, [a("a.x. 60"), a("c.x. 60")]);
    assert_eq!(kinds(&report), [(FaultKind::UnclosedParenthesis, 2, 7)]);
    // The same if the end of the file is far away.
    text.extend(std::iter::repeat_n("d A 192.0.2.1\n", 200_000));
    let (lines, report) = scan(&text);
    assert_eq!(lines.len(), 200_002);
    assert_eq!(kinds(&report), [(FaultKind::UnclosedParenthesis, 2, 7)]);
}

#[test]
fn records_at_every_place_of_a_block_edge() {
    // Window steps are 256 KiB: records with all kinds of tokens cross the edges.
    let mut text = String::new();
    while text.len() < 600_000 {
        let n = text.len();
        writeln!(text, "n{n} A 192.0.2.1 ; \"\n TXT ( \"a ; b\"\n\t\\\"{n} )").unwrap();
    }
    let lines = records(&text);
    assert!(lines.chunks(2).all(|pair| pair[0].ends_with(A1) && pair[1].contains(" TXT 0561203b2062")));
}

#[test]
fn the_sink_can_reject_and_break_off() {
    let run = |rejection: Rejection| {
        let mut keep = Keep { reject: Some((Type::TXT, rejection)), ..Keep::default() };
        let text = b"a A 192.0.2.1\nb 7 TXT x\n A 192.0.2.1\n";
        let report = read(TextSource::bytes("z", text), &config(), &mut keep);
        (keep.lines.len(), report)
    };
    let (kept, report) = run(Rejection::warning("out of zone"));
    assert_eq!((kept, report.errors, report.warnings, report.is_clean()), (2, 0, 1, true));
    assert_eq!(report.faults[0].to_string(), "z:2:1: warning: out of zone");
    assert_eq!(report.records, 2);
    let (kept, report) = run(Rejection::error("no"));
    assert_eq!((kept, report.errors, report.stopped), (2, 1, false));
    let (kept, report) = run(Rejection::stop("no"));
    assert_eq!((kept, report.errors, report.stopped), (1, 1, true));
    let mut keep = Keep { break_after: Some(2), ..Keep::default() };
    let text = "a A 192.0.2.1\n".repeat(100_000);
    let report = read(TextSource::bytes("z", text.as_bytes()), &config(), &mut keep);
    assert!(report.stopped && report.faults.is_empty() && report.records < 100_000 && report.records > 0);
}

fn kinds(report: &ScanReport) -> Vec<(FaultKind, u32, u32)> {
    report.faults.iter().map(|f| (f.kind, f.line, f.column)).collect()
}

fn write(dir: &Path, name: &str, text: &str) {
    std::fs::write(dir.join(name), text).unwrap();
}

fn scan_file(path: &Path, config: &ScanConfig) -> (Keep, ScanReport) {
    let mut keep = Keep::default();
    let report = read(TextSource::file(path), config, &mut keep);
    (keep, report)
}

#[test]
fn included_files_keep_their_origin_and_owner_to_themselves() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("sub dir")).unwrap();
    write(dir.path(), "main", "a A 192.0.2.1\n$INCLUDE \"sub dir/one\" y ; c\n A 192.0.2.1\nb A 192.0.2.1\n");
    write(
        &dir.path().join("sub dir"),
        "one",
        " A 192.0.2.1\na A 192.0.2.1\n$ORIGIN q.\n$TTL 9\n$INCLUDE two\nc BAD\n",
    );
    write(&dir.path().join("sub dir"), "two", "a A 192.0.2.1");
    let (keep, report) = scan_file(&dir.path().join("main"), &config());
    let want = ["a.x. 60", "a.x. 60", "a.y.x. 60", "a.q. 9", "a.x. 9", "b.x. 9"];
    assert_eq!(keep.lines, want.map(a));
    assert_eq!(keep.places, [(0, 1), (1, 1), (1, 2), (2, 1), (0, 3), (0, 4)]);
    assert_eq!(kinds(&report), [(FaultKind::UnknownType, 6, 3)]);
    assert!(report.faults[0].file.ends_with("sub dir/one"), "{}", report.faults[0]);
    assert!(report.faults[0].note.as_ref().unwrap().ends_with("main:2"));
    assert_eq!(report.files.len(), 3);
}

#[test]
fn includes_are_bounded_and_their_faults_reported_where_they_stand() {
    let dir = tempfile::tempdir().unwrap();
    let main = dir.path().join("main");
    write(dir.path(), "main", "a A 192.0.2.1\n$INCLUDE main\n");
    let (keep, report) = scan_file(&main, &config());
    assert_eq!((keep.lines.len(), kinds(&report)), (21, vec![(FaultKind::IncludeTooDeep, 2, 10)]));
    let mut few = config();
    few.limits.includes = 3;
    assert_eq!(kinds(&scan_file(&main, &few).1), [(FaultKind::TooManyIncludes, 2, 10)]);
    write(dir.path(), "main", "$INCLUDE nowhere\n$INCLUDE .\na A 192.0.2.1\n");
    let (keep, report) = scan_file(&main, &config());
    assert_eq!(kinds(&report), [(FaultKind::CannotRead, 1, 10), (FaultKind::CannotRead, 2, 10)]);
    assert_eq!(keep.lines.len(), 1);
    let (_, report) = scan("$INCLUDE main\n");
    assert_eq!(kinds(&report), [(FaultKind::IncludeForbidden, 1, 10)]);
    for path in [dir.path().join("nowhere"), dir.path().to_path_buf()] {
        let (_, report) = scan_file(&path, &config());
        assert_eq!(kinds(&report), [(FaultKind::CannotRead, 0, 0)]);
        assert!(!report.is_clean());
    }
}

#[test]
fn a_sparse_file_was_read_to_its_end_after_its_error_was_known() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sparse");
    for front in ["", "a A 192.0.2.1\n", "a TXT (", "a TXT \""] {
        std::fs::write(&path, front).unwrap();
        std::fs::File::options().append(true).open(&path).unwrap().set_len(10 << 30).unwrap();
        let (_, report) = scan_file(&path, &config());
        let kinds: Vec<FaultKind> = report.faults.iter().map(|fault| fault.kind).collect();
        assert_eq!(kinds, [FaultKind::EntryTooLong, FaultKind::NoText], "{front:?}");
        assert!(report.stopped && report.bytes < 16 << 20, "{front:?}: {} bytes read", report.bytes);
    }
}

#[test]
fn text_is_bounded_with_all_that_it_includes() {
    let dir = tempfile::tempdir().unwrap();
    let main = dir.path().join("main");
    write(dir.path(), "main", "a A 192.0.2.1\n$INCLUDE more\nb A 192.0.2.1\n");
    write(dir.path(), "more", "c A 192.0.2.1\n");
    let (of_main, of_all) = (main.metadata().unwrap().len(), main.metadata().unwrap().len() + 14);
    let bounded = |text: u64| {
        let mut config = config();
        config.limits.text = text;
        let (keep, report) = scan_file(&main, &config);
        (keep.lines.len(), report.stopped, kinds(&report))
    };
    assert_eq!(bounded(of_all), (3, false, vec![]));
    assert_eq!(bounded(of_all - 1), (1, true, vec![(FaultKind::TextTooLong, 0, 0)]));
    assert_eq!(bounded(of_main - 1), (0, true, vec![(FaultKind::TextTooLong, 0, 0)]));
    // The size of a source that is no file is unknown until it has been read.
    let mut few = config();
    few.limits.text = 100_000;
    let endless = Read::chain(&b"a A 192.0.2.1\n"[..], io::repeat(b'\n'));
    let report = read(TextSource::reader("endless", endless), &few, &mut Keep::default());
    assert_eq!(kinds(&report), [(FaultKind::TextTooLong, 0, 0)]);
}

/// Returns some text, then an error.
struct Failing(&'static [u8]);

impl Read for Failing {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() { Err(io::Error::other("disk")) } else { self.0.read(to) }
    }
}

#[test]
fn a_read_error_is_an_error() {
    let mut keep = Keep::default();
    let report = read(TextSource::reader("z", Failing(b"a A 192.0.2.1\n")), &config(), &mut keep);
    assert_eq!(report.faults[0].kind, FaultKind::CannotRead);
    assert!(report.faults[0].to_string().contains("disk"));
}

mod broken;
mod oracle;

/// A text with faults, several owners and an include, large enough for several batches.
fn mixed(dir: &Path) -> PathBuf {
    let mut text = String::from("$TTL 5\n$INCLUDE inc\n");
    for n in 0..20_000 {
        writeln!(text, "n{n} A 192.0.2.1\n TXT \"{n}\"\n\tNS n{n}").unwrap();
        if n % 4000 == 0 {
            text.push_str("x BAD\ny 3000000000 A 192.0.2.1\n");
        }
    }
    write(dir, "inc", "i TXT i\n TXT j\n");
    write(dir, "main", &text);
    dir.join("main")
}

#[test]
fn batches_carry_the_same_records() {
    let dir = tempfile::tempdir().unwrap();
    let path = mixed(dir.path());
    let (plain, plain_report) = scan_file(&path, &config());
    let mut piped = Keep::default();
    let report = read_pipelined(TextSource::file(&path), &config(), &mut piped);
    assert_eq!(plain.lines.len(), 60_007);
    assert!(plain.lines == piped.lines && plain.places == piped.places);
    assert_eq!(kinds(&plain_report), kinds(&report));
    assert_eq!((plain_report.records, plain_report.bytes), (report.records, report.bytes));
    assert!(piped.blocks > 2);
}

#[test]
fn rejections_come_back_from_the_other_thread() {
    let dir = tempfile::tempdir().unwrap();
    let path = mixed(dir.path());
    let run = |rejection: Rejection, errors| {
        let mut keep = Keep { reject: Some((Type::TXT, rejection)), ..Keep::default() };
        let mut config = config();
        config.limits = Limits { errors, warnings: 3, ..config.limits };
        (read_pipelined(TextSource::file(&path), &config, &mut keep), keep)
    };
    let (report, keep) = run(Rejection::warning("not here"), 20);
    assert_eq!((report.errors, report.warnings, keep.lines.len()), (5, 20_002 + 5, 40_005));
    assert_eq!(report.faults.iter().filter(|f| f.message == "not here").count(), 3);
    assert!(!report.stopped);
    let (report, keep) = run(Rejection::error("no"), 2);
    assert!(report.stopped && keep.lines.is_empty());
    assert_eq!(report.faults.iter().filter(|f| f.message == "no").count(), 2);
    let (report, _) = run(Rejection::stop("no"), 20);
    assert!(report.stopped && report.faults.iter().any(|f| f.message == "no"));
    let mut keep = Keep { break_after: Some(1), ..Keep::default() };
    let report = read_pipelined(TextSource::file(&path), &config(), &mut keep);
    assert!(report.stopped && report.records < 60_000);
}

/// Has the same remark about every record.
struct Remarker(RemarkAt);

impl Sink for Remarker {
    fn record(&mut self, _: &Record<'_>) -> Result<(), Rejection> {
        Ok(())
    }

    fn remarks(&mut self, record: &Record<'_>, file: &str) -> Vec<Remark> {
        let message = format!("{file} {}", record.rtype);
        vec![Remark { severity: Severity::Warning, message, at: self.0 }]
    }
}

#[test]
fn remarks_are_shown_at_the_words_that_are_meant() {
    let text = "a MX ( 10\n mail ) ; c\n\t60 IN TXT \"mail\"\n$GENERATE 1-2 g$ A 192.0.2.$\n";
    let shown = |at| {
        let report = read(TextSource::bytes("z", text.as_bytes()), &config(), &mut Remarker(at));
        assert_eq!((report.records, report.warnings, report.faults.len()), (4, 0, 0));
        let words = |fault: &Fault| {
            let excerpt = fault.excerpt.as_ref().expect("an excerpt");
            let word: String = excerpt.text.chars().skip(excerpt.from).take(excerpt.width).collect();
            format!("{}:{} {word}", fault.line, fault.column)
        };
        report.remarks.iter().map(words).collect::<Vec<_>>().join(", ")
    };
    let generated = "4:20 192.0.2.$, 4:20 192.0.2.$";
    let (owner, rtype) = ("1:1 a", "3:8 TXT");
    assert_eq!(shown(RemarkAt::Owner), format!("{owner}, {rtype}, {generated}"));
    assert_eq!(shown(RemarkAt::Type), format!("1:3 MX, {rtype}, {generated}"));
    assert_eq!(shown(RemarkAt::Data(1)), format!("2:2 mail, {rtype}, {generated}"));
    let name = RemarkAt::Name("mail.x.".parse().unwrap());
    // A quoted string is no name.
    assert_eq!(shown(name), format!("2:2 mail, {rtype}, {generated}"));
}
