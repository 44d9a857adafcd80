//! Builds records from entries (owner, TTL, class, type, data): the scanner's third stage. Collects the
//! report of files and faults.

use super::fault::{Excerpt, Fault, FaultKind, Severity};
use super::input::{Advance, EntryStart, View, Window};
use super::lex::{self, Lexed};
use super::simd::Level;
use super::words::{self, TypeOrClass};
use super::{
    OpenSource, Place, Progress, Record, Remark, RemarkAt, ScanConfig, ScanReport, Sink, TextSource,
};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use wire::Ttl;
use wire::name::{Name, NameBuf};
use wire::rdata::view::Soa;
use wire::rdata::{self, TextFaultKind};
use wire::rr::{Class, Type};
use wire::text::{self, Token};

/// The scan stops here, before the end of the text.
pub(super) struct Stop;

/// A fault without line and column yet: its place is a part of the text.
#[derive(Debug)]
pub(super) struct Trouble<'w> {
    pub(super) kind: FaultKind,
    pub(super) severity: Severity,
    pub(super) message: String,
    pub(super) note: Option<String>,
    pub(super) at: Spot<'w>,
}

/// A place within an entry.
#[derive(Clone, Copy, Debug)]
pub(super) enum Spot<'w> {
    /// At this part of the view.
    TypeOrClass(&'w [u8]),
    /// After this part of the view: the next word is missing.
    After(&'w [u8]),
}

impl<'w> Trouble<'w> {
    /// Returns an error at `token`. Boxed, so that results without a fault stay small.
    #[cold]
    pub(super) fn at(token: Token<'w>, kind: FaultKind, message: impl Into<String>) -> Box<Self> {
        let at = Spot::TypeOrClass(token.bytes);
        Box::new(Trouble { kind, severity: Severity::Error, message: message.into(), note: None, at })
    }

    /// Returns an error after the last of `tokens`.
    #[cold]
    pub(super) fn after(tokens: &[Token<'w>], kind: FaultKind, message: impl Into<String>) -> Box<Self> {
        let at = Spot::After(tokens.last().map_or(&[], |t| t.bytes));
        Box::new(Trouble { kind, severity: Severity::Error, message: message.into(), note: None, at })
    }

    pub(super) fn with_note(mut self: Box<Self>, note: impl Into<String>) -> Box<Self> {
        self.note = Some(note.into());
        self
    }

    fn warning(mut self: Box<Self>) -> Box<Self> {
        self.severity = Severity::Warning;
        self
    }
}

/// A file being read, and its state.
pub(super) struct OpenFile {
    /// Index into [`ScanReport::files`].
    pub(super) id: u32,
    pub(super) name: Arc<str>,
    /// The directory for relative paths of `$INCLUDE`; `None` if it is forbidden.
    pub(super) include_dir: Option<PathBuf>,
    /// `included from a:3, from b:1`.
    pub(super) included_from: Option<Arc<str>>,
    /// Number of files that include this one, directly or indirectly.
    pub(super) depth: usize,
    pub(super) origin: NameBuf,
    pub(super) owner: CurrentOwner,
}

/// The owner of the entry before, which also applies to a line that begins with a blank.
#[derive(Default)]
pub(super) struct CurrentOwner {
    /// Its wire form; empty if there is none.
    wire: Vec<u8>,
    /// Its text, to recognise the same owner without parsing it; empty once the origin has changed.
    pub(super) text: Vec<u8>,
    /// It is malformed. Further records with it are skipped, since its fault has been reported.
    bad: bool,
}

impl CurrentOwner {
    /// Returns the same owner for a file with another origin.
    pub(super) fn inherited(&self) -> Self {
        CurrentOwner { wire: self.wire.clone(), text: Vec::new(), bad: self.bad }
    }
}

/// The place of an entry.
#[derive(Clone, Copy)]
pub(super) struct EntryPlace<'w> {
    pub(super) view: View<'w>,
    pub(super) entry: EntryStart,
    /// For a record of `$GENERATE`: the token of the directive at which faults are shown.
    pub(super) generated: Option<Token<'w>>,
}

/// The words of a record that remarks may be about.
struct RecordWords<'w> {
    /// The owner, if the entry has one.
    owner: &'w [Token<'w>],
    rtype: Token<'w>,
    data: &'w [Token<'w>],
}

/// The fields between owner and data.
pub(super) struct TypeFields {
    /// The TTL in seconds as written, and the index of its token.
    ttl: Option<(u32, usize)>,
    pub(super) rtype: Type,
    /// Index of the first token after the type.
    pub(super) data: usize,
}

/// One scan: of one file and all included files.
pub(super) struct Scanner<'s, S> {
    pub(super) sink: &'s mut S,
    pub(super) config: &'s ScanConfig,
    pub(super) report: ScanReport,
    level: Level,
    pub(super) default_ttl: Option<Ttl>,
    /// The TTL of the last record with an explicit one.
    previous_ttl: Option<Ttl>,
    /// Whether the warning about records that inherit the previous TTL has been given.
    warned_of_previous_ttl: bool,
    /// Whether the owner has changed since the last record passed to the sink.
    pub(super) owner_changed: bool,
    rdata: Vec<u8>,
    total: u64,
    pub(super) included: usize,
    pub(super) generated: u64,
}

impl<'s, S: Sink> Scanner<'s, S> {
    pub(super) fn new(config: &'s ScanConfig, sink: &'s mut S) -> Self {
        Scanner {
            sink,
            config,
            report: ScanReport::default(),
            level: Level::detect(),
            default_ttl: config.default_ttl,
            previous_ttl: None,
            warned_of_previous_ttl: false,
            owner_changed: true,
            rdata: Vec::with_capacity(1024),
            total: 0,
            included: 0,
            generated: 0,
        }
    }

    /// Scans `source` and all files it includes.
    pub(super) fn run(mut self, source: TextSource<'_>) -> ScanReport {
        let mut file = self.enter(&source, self.config.origin);
        let ended = match source.open() {
            Ok(opened) => self.file(&mut file, opened),
            Err(e) => self.unreadable(&file, 0, &e),
        };
        self.report.stopped = ended.is_err();
        self.report
    }

    /// Adds a file to the report.
    pub(super) fn enter(&mut self, source: &TextSource<'_>, origin: NameBuf) -> OpenFile {
        let id = self.report.files.len() as u32;
        self.report.files.push(source.name.clone());
        self.report.sources.push(None);
        OpenFile {
            id,
            name: source.name.clone(),
            include_dir: source.include_dir.clone(),
            included_from: None,
            depth: 0,
            origin,
            owner: CurrentOwner::default(),
        }
    }

    /// Scans one file to its end.
    pub(super) fn file(&mut self, file: &mut OpenFile, opened: OpenSource<'_>) -> Result<(), Stop> {
        let OpenSource { reader, size, file: version } = opened;
        if let Some(slot) = self.report.sources.get_mut(file.id as usize) {
            *slot = version;
        }
        self.total += size.unwrap_or(0);
        self.check_size(file, self.report.bytes.saturating_add(size.unwrap_or(0)))?;
        let mut window = Window::new(reader, self.level, self.config.limits.entry_text, size);
        let mut seen = 0;
        loop {
            let advance = match window.advance() {
                Ok(advance) => advance,
                Err(e) => return self.unreadable(file, window.cursor.line, &e),
            };
            self.report.bytes += window.read - std::mem::replace(&mut seen, window.read);
            self.check_size(file, self.report.bytes)?;
            if advance == Advance::End {
                return Ok(());
            }
            let (read, records) = (self.report.bytes, self.report.records);
            if let ControlFlow::Break(()) = self.sink.progress(Progress { read, total: self.total, records })
            {
                return Err(Stop);
            }
            let at = self.entries(file, window.view(), window.cursor, advance)?;
            let stuck = advance == Advance::TooLong && at.start == window.cursor.start;
            if !stuck {
                window.go_to(at);
                continue;
            }
            let end = window.view().bytes.len();
            match window.skip_line(end) {
                Ok(true) => {}
                Ok(false) => return self.no_text(file, window.cursor.line),
                Err(e) => return self.unreadable(file, window.cursor.line, &e),
            }
        }
    }

    /// Stops the scan if all files together have more than the limit; `bytes` is their size so far.
    fn check_size(&mut self, file: &OpenFile, bytes: u64) -> Result<(), Stop> {
        let limit = self.config.limits.text;
        if bytes <= limit {
            return Ok(());
        }
        let message = format!("the text has {bytes} bytes or more, and the limit is {limit}");
        // The scan stops, even if the limit on errors is not reached.
        let _ = self.keep(whole_line(file, 0, FaultKind::TextTooLong, message));
        Err(Stop)
    }

    /// Stops the scan: no line has ended since `line` within the limit of an entry.
    #[cold]
    fn no_text(&mut self, file: &OpenFile, line: u32) -> Result<(), Stop> {
        let message = "no line ends here, this is no master file; the rest is not read".to_owned();
        // As above.
        let _ = self.keep(whole_line(file, line, FaultKind::NoText, message));
        Err(Stop)
    }

    /// Reads all entries that end in the view. Returns the start of the next one.
    fn entries(
        &mut self,
        file: &mut OpenFile,
        view: View<'_>,
        mut at: EntryStart,
        advance: Advance,
    ) -> Result<EntryStart, Stop> {
        let mut tokens = Vec::with_capacity(64); // once for some thousand records
        loop {
            tokens.clear();
            match lex::step(view, at, &mut tokens) {
                Lexed::Entry { at: entry, has_owner, after } => {
                    at = after;
                    let here = EntryPlace { view, entry, generated: None };
                    if after.start - entry.start > self.config.limits.entry_text {
                        self.too_long(file, &here)?;
                        continue;
                    }
                    self.entry(file, &here, &tokens, has_owner)?;
                }
                Lexed::Fault { kind, at: fault, length, entry, after } => {
                    at = after;
                    let here = EntryPlace { view, entry, generated: None };
                    self.lexical(file, &here, kind, fault, length)?;
                    if advance == Advance::TooLong {
                        return Ok(at); // the view is `last` only for the entry at its front
                    }
                }
                Lexed::More(next) => {
                    if advance == Advance::TooLong && next.start == at.start && at.start == 0 {
                        self.too_long(file, &EntryPlace { view, entry: next, generated: None })?;
                    }
                    return Ok(next);
                }
            }
        }
    }

    /// Handles an entry: a record or directive.
    #[inline]
    fn entry<'w>(
        &mut self,
        file: &mut OpenFile,
        here: &EntryPlace<'w>,
        tokens: &[Token<'w>],
        has_owner: bool,
    ) -> Result<(), Stop> {
        let Some(&first) = tokens.first() else { return Ok(()) };
        if has_owner {
            if first.bytes.first() == Some(&b'$') && !first.quoted {
                return self.directive(file, here, tokens);
            }
            if let Err(trouble) = self.owner(file, first) {
                return self.add_fault(file, here, trouble);
            }
        } else if file.owner.wire.is_empty() && !file.owner.bad {
            let message =
                "a line that begins with a blank continues the owner of the line before, and there is none";
            return self.add_fault(file, here, Trouble::at(first, FaultKind::NoPreviousOwner, message));
        }
        if file.owner.bad {
            return Ok(());
        }
        match self.record(file, here, tokens, usize::from(has_owner)) {
            Ok(()) => Ok(()),
            Err(trouble) => self.add_fault(file, here, trouble),
        }
    }

    /// Sets the owner to `token`.
    #[inline]
    pub(super) fn owner<'w>(
        &mut self,
        file: &mut OpenFile,
        token: Token<'w>,
    ) -> Result<(), Box<Trouble<'w>>> {
        let owner = &mut file.owner;
        if token.bytes == owner.text && !token.quoted && !owner.bad {
            return Ok(());
        }
        self.owner_changed = true;
        owner.text.clear();
        owner.wire.clear();
        owner.bad = true;
        if token.quoted {
            return Err(quoted_field(token));
        }
        text::name(token.bytes, Some(file.origin.as_name()), &mut owner.wire).map_err(|e| {
            let message = format!("{} is not a domain name: {e}", show(token.bytes));
            Trouble::at(token, FaultKind::BadOwner(e), message)
        })?;
        owner.text.extend_from_slice(token.bytes);
        owner.bad = false;
        Ok(())
    }

    /// Parses TTL, class and type from token `from` on: the first two are optional and in any order, then the
    /// type.
    #[inline]
    pub(super) fn fields<'w>(
        &self,
        tokens: &[Token<'w>],
        from: usize,
    ) -> Result<TypeFields, Box<Trouble<'w>>> {
        let (mut ttl, mut class) = (None, false);
        for (i, &token) in tokens.iter().enumerate().skip(from) {
            let text = token.bytes;
            if token.quoted {
                return Err(quoted_field(token));
            }
            if text.first().is_some_and(u8::is_ascii_digit) {
                if ttl.is_some() {
                    return Err(Trouble::at(
                        token,
                        FaultKind::RepeatedTtl,
                        format!("second TTL {}", show(text)),
                    ));
                }
                let Some(seconds) = words::ttl(text) else { return Err(bad_ttl(token)) };
                ttl = Some((seconds, i));
                continue;
            }
            if matches!(text, b"IN" | b"in") && !class && self.config.class == Class::IN {
                class = true; // the usual case, without a look-up
                continue;
            }
            match words::word(text) {
                Some(TypeOrClass::Type(rtype)) if rtype.is_meta() => {
                    let message = format!("{rtype} is a query or meta type, which no zone can hold");
                    return Err(Trouble::at(token, FaultKind::MetaType, message));
                }
                Some(TypeOrClass::Type(rtype)) => return Ok(TypeFields { ttl, rtype, data: i + 1 }),
                Some(TypeOrClass::Class(_)) if class => {
                    return Err(Trouble::at(
                        token,
                        FaultKind::RepeatedClass,
                        format!("second class {}", show(text)),
                    ));
                }
                Some(TypeOrClass::Class(given)) if given == self.config.class => class = true,
                Some(TypeOrClass::Class(given)) => {
                    let message = format!("class {given} in a zone of class {}", self.config.class);
                    return Err(Trouble::at(token, FaultKind::WrongClass, message));
                }
                None => return Err(unknown_type(token, i == 0)),
            }
        }
        Err(Trouble::after(tokens, FaultKind::MissingType, "the record ends before its type"))
    }

    /// Parses a record of the current owner and passes it to the sink; its TTL, class, type and data are the
    /// tokens from `from` on.
    #[inline]
    pub(super) fn record<'w>(
        &mut self,
        file: &OpenFile,
        here: &EntryPlace<'_>,
        tokens: &[Token<'w>],
        from: usize,
    ) -> Result<(), Box<Trouble<'w>>> {
        let fields = self.fields(tokens, from)?;
        let data = &tokens[fields.data..];
        self.rdata.clear();
        if let Err(fault) =
            rdata::parse_text(fields.rtype, data, Some(file.origin.as_name()), &mut self.rdata)
            && !self.is_split(file, here, fields.rtype, data, fault.kind)
        {
            let message = format!("{} record: {fault}", fields.rtype);
            let kind = FaultKind::Rdata(fault.kind);
            return Err(match data.get(fault.token) {
                Some(&token) if fault.kind == TextFaultKind::StringTooLong => {
                    Trouble::at(token, kind, message).with_note(split_string(token))
                }
                Some(&token) => Trouble::at(token, kind, format!("{message}: {}", show(token.bytes))),
                None => Trouble::after(tokens, kind, message),
            });
        }
        if fields.rtype == Type::TXT {
            self.warn_if_cut(file, here, data);
        }
        let ttl = self.ttl(file, here, tokens, &fields)?;
        let Ok(owner) = Name::from_wire(&file.owner.wire) else { return Ok(()) };
        let record = Record {
            owner,
            same_owner: !self.owner_changed,
            ttl,
            class: self.config.class,
            rtype: fields.rtype,
            rdata: &self.rdata,
            place: Place { file: file.id, line: here.entry.line },
        };
        self.owner_changed = false;
        let remarks = self.sink.remarks(&record, &file.name);
        let taken = self.sink.record(&record);
        if !remarks.is_empty() {
            let words = RecordWords { owner: &tokens[..from], rtype: tokens[fields.data - 1], data };
            self.remark(file, here, words, remarks);
        }
        match taken {
            Ok(()) => {
                self.report.records += 1;
                Ok(())
            }
            Err(rejection) => {
                self.report.stopped |= rejection.stop;
                let mut trouble = Trouble::at(tokens[0], FaultKind::Rejected, rejection.message);
                trouble.severity = rejection.severity;
                Err(trouble)
            }
        }
    }

    /// Returns the record's TTL: its own, or the one it inherits by RFC 2308 §4 as BIND interprets it.
    #[inline]
    fn ttl<'w>(
        &mut self,
        file: &OpenFile,
        here: &EntryPlace<'_>,
        tokens: &[Token<'w>],
        fields: &TypeFields,
    ) -> Result<Ttl, Box<Trouble<'w>>> {
        if let Some((seconds, at)) = fields.ttl {
            let ttl = self.ttl_of(file, here, tokens[at], seconds);
            self.previous_ttl = Some(ttl);
            return Ok(ttl);
        }
        if let Some(ttl) = self.default_ttl {
            return Ok(ttl);
        }
        self.inherited_ttl(file, here, tokens, fields)
    }

    #[cold]
    fn inherited_ttl<'w>(
        &mut self,
        file: &OpenFile,
        here: &EntryPlace<'_>,
        tokens: &[Token<'w>],
        fields: &TypeFields,
    ) -> Result<Ttl, Box<Trouble<'w>>> {
        let word = tokens[fields.data - 1];
        if let Some(ttl) = self.previous_ttl {
            if !std::mem::replace(&mut self.warned_of_previous_ttl, true) {
                let message = format!(
                    "no TTL here and no $TTL before: using {ttl}, that of the last record that had one"
                );
                self.warn(file, here, Trouble::at(word, FaultKind::TtlFromPrevious, message));
            }
            return Ok(ttl);
        }
        if fields.rtype == Type::SOA
            && let Ok(soa) = Soa::read(&self.rdata)
        {
            let ttl = Ttl::from_secs(soa.numbers.minimum);
            self.default_ttl = Some(ttl);
            let message = format!("no TTL here and no $TTL before: using {ttl}, the SOA record's MINIMUM");
            self.warn(file, here, Trouble::at(word, FaultKind::TtlFromSoa, message));
            return Ok(ttl);
        }
        let trouble = Trouble::at(word, FaultKind::NoTtl, "no TTL here, none before, and no $TTL");
        Err(trouble.with_note("put a line such as `$TTL 1h` at the top of the file"))
    }

    /// Returns the TTL of `seconds`, which `token` holds. More than [`Ttl::MAX`] counts as 0, with a warning
    /// (RFC 2181 §8).
    #[inline]
    pub(super) fn ttl_of(
        &mut self,
        file: &OpenFile,
        here: &EntryPlace<'_>,
        token: Token<'_>,
        seconds: u32,
    ) -> Ttl {
        if seconds > Ttl::MAX.as_secs() {
            self.warn_too_large(file, here, token);
        }
        Ttl::from_secs(seconds)
    }

    /// Warns about a word of a TXT record directly followed by `;`, which begins a comment: `v=DKIM1; k=rsa`.
    #[cold]
    fn warn_if_cut(&mut self, file: &OpenFile, here: &EntryPlace<'_>, data: &[Token<'_>]) {
        let Some(&last) = data.last().filter(|last| !last.quoted && here.generated.is_none()) else { return };
        let offset = (last.bytes.as_ptr() as usize).wrapping_sub(here.view.bytes.as_ptr() as usize);
        let behind = offset.checked_add(last.bytes.len()).and_then(|end| here.view.bytes.get(end));
        if behind == Some(&b';') {
            let message =
                format!("the record ends with {}: what follows the `;` is a comment", show(last.bytes));
            let trouble = Trouble::at(last, FaultKind::CutByComment, message);
            self.warn(file, here, trouble.with_note("put quotation marks around the whole string"));
        }
    }

    /// Splits a string that is too long into several, if the configuration allows it. Returns whether it did;
    /// then the data is valid, and a warning is reported.
    #[cold]
    fn is_split(
        &mut self,
        file: &OpenFile,
        here: &EntryPlace<'_>,
        rtype: Type,
        data: &[Token<'_>],
        fault: TextFaultKind,
    ) -> bool {
        if !self.config.split_strings || rtype != Type::TXT || fault != TextFaultKind::StringTooLong {
            return false;
        }
        self.rdata.clear();
        let (mut bytes, mut first_long) = (Vec::new(), None);
        for token in data {
            match rdata::parse_text(rtype, &[*token], None, &mut self.rdata) {
                Ok(()) => continue,
                Err(fault) if fault.kind == TextFaultKind::StringTooLong => {}
                Err(_) => return false,
            }
            first_long.get_or_insert(*token);
            bytes.clear();
            // It was unescaped before, without a fault.
            let _ = text::unescape(token.bytes, &mut bytes);
            for part in bytes.chunks(255) {
                self.rdata.push(part.len() as u8);
                self.rdata.extend_from_slice(part);
            }
        }
        let Some(token) = first_long.filter(|_| self.rdata.len() <= usize::from(u16::MAX)) else {
            return false;
        };
        let message = "a string of more than 255 bytes is taken as several";
        let trouble = Trouble::at(token, FaultKind::Rdata(fault), message);
        self.warn(file, here, trouble.with_note(split_string(token)));
        true
    }

    /// Warns that the TTL `token` counts as 0.
    #[cold]
    fn warn_too_large(&mut self, file: &OpenFile, here: &EntryPlace<'_>, token: Token<'_>) {
        let message = format!("TTL {} is more than 2147483647 and counts as 0", show(token.bytes));
        self.warn(file, here, Trouble::at(token, FaultKind::TtlTooLarge, message));
    }

    pub(super) fn warn(&mut self, file: &OpenFile, here: &EntryPlace<'_>, trouble: Box<Trouble<'_>>) {
        // A warning never ends the scan.
        let _ = self.add_fault(file, here, trouble.warning());
    }

    /// Reports the sink's remarks about a record, at its owner (if the entry has one), its type, or its data.
    #[cold]
    fn remark(
        &mut self,
        file: &OpenFile,
        here: &EntryPlace<'_>,
        words: RecordWords<'_>,
        remarks: Vec<Remark>,
    ) {
        let RecordWords { owner, rtype, data } = words;
        let is_name = |token: &Token<'_>, name: NameBuf| {
            let read = NameBuf::from_text(token.bytes, Some(file.origin.as_name()));
            !token.quoted && read.is_ok_and(|read| read == name)
        };
        for Remark { severity, message, at } in remarks {
            let word = match at {
                RemarkAt::Owner => owner.first(),
                RemarkAt::Type => None,
                RemarkAt::Data(number) => data.get(number),
                RemarkAt::Name(name) => data.iter().find(|token| is_name(token, name)),
            };
            let trouble = Trouble::at(*word.unwrap_or(&rtype), FaultKind::Remarked, message);
            let fault = Fault { severity, ..placed(file, here, trouble) };
            self.report.remarks.push(fault);
        }
    }

    /// Reports a fault of quotes and parentheses, or a NUL byte.
    #[cold]
    fn lexical(
        &mut self,
        file: &OpenFile,
        here: &EntryPlace<'_>,
        kind: FaultKind,
        at: usize,
        length: usize,
    ) -> Result<(), Stop> {
        let (message, note) = match kind {
            FaultKind::NulByte => (
                "NUL byte: this is not a text file, or a crash cut it short".to_owned(),
                Some("a byte of value 0 is written \\000"),
            ),
            FaultKind::UnclosedQuote => (
                "the quoted string does not end on its line".to_owned(),
                Some("a line feed within a string is written \\010"),
            ),
            FaultKind::StrayQuote => (
                "this quotation mark touches other text".to_owned(),
                Some("a blank keeps strings apart; a quotation mark within a string is written \\\""),
            ),
            FaultKind::UnclosedParenthesis => ("this parenthesis is not closed".to_owned(), None),
            _ => ("closing parenthesis without an opening one".to_owned(), None),
        };
        let at = Spot::TypeOrClass(here.view.bytes.get(at..at + length).unwrap_or_default());
        let note = note.map(str::to_owned);
        self.add_fault(file, here, Box::new(Trouble { kind, severity: Severity::Error, message, note, at }))
    }

    #[cold]
    fn too_long(&mut self, file: &OpenFile, here: &EntryPlace<'_>) -> Result<(), Stop> {
        let limit = self.config.limits.entry_text;
        let front = here.view.bytes.get(here.entry.start..here.entry.start + 1).unwrap_or_default();
        let message = format!("the text of this record is longer than {limit} bytes");
        self.add_fault(
            file,
            here,
            Trouble::at(Token { bytes: front, quoted: false }, FaultKind::EntryTooLong, message),
        )
    }

    /// Reports a file that cannot be opened, or not be read beyond `line`.
    #[cold]
    fn unreadable(&mut self, file: &OpenFile, line: u32, error: &std::io::Error) -> Result<(), Stop> {
        let message = format!("cannot read the file: {error}");
        self.keep(whole_line(file, line, FaultKind::CannotRead, message))
    }

    /// Adds a fault to the report. Returns `Err` if the scan must stop, since the limit of errors is reached.
    #[cold]
    pub(super) fn add_fault(
        &mut self,
        file: &OpenFile,
        here: &EntryPlace<'_>,
        trouble: Box<Trouble<'_>>,
    ) -> Result<(), Stop> {
        self.keep(placed(file, here, trouble))
    }

    /// Counts a fault, and stores it as far as the limits allow.
    fn keep(&mut self, fault: Fault) -> Result<(), Stop> {
        let limits = &self.config.limits;
        match fault.severity {
            Severity::Warning => {
                self.report.warnings += 1;
                if self.report.warnings <= limits.warnings as u64 {
                    self.report.faults.push(fault);
                }
            }
            Severity::Error => {
                self.report.errors += 1;
                self.report.faults.push(fault);
                self.report.stopped |= self.report.errors >= limits.errors.max(1) as u64;
            }
        }
        if self.report.stopped { Err(Stop) } else { Ok(()) }
    }
}

/// Returns an error about a whole line, or about the whole file for line 0.
fn whole_line(file: &OpenFile, line: u32, kind: FaultKind, message: String) -> Fault {
    Fault {
        kind,
        severity: Severity::Error,
        file: file.name.clone(),
        line,
        column: 0,
        message,
        note: file.included_from.as_deref().map(str::to_owned),
        excerpt: None,
        about: None,
    }
}

/// Returns a fault with its line and column, and the line itself.
#[cold]
#[expect(clippy::boxed_local, reason = "faults come boxed")]
fn placed(file: &OpenFile, here: &EntryPlace<'_>, trouble: Box<Trouble<'_>>) -> Fault {
    let (word, after) = match trouble.at {
        Spot::TypeOrClass(word) => (word, false),
        Spot::After(word) => (word, true),
    };
    let (word, after) = here.generated.map_or((word, after), |token| (token.bytes, false));
    let bytes = here.view.bytes;
    // The offset of `word` in the view, from its address: it is a part of the view.
    let offset = (word.as_ptr() as usize).wrapping_sub(bytes.as_ptr() as usize);
    let known = offset <= bytes.len();
    let at = if known { offset + if after { word.len() } else { 0 } } else { here.entry.start };
    let lines = memchr::memchr_iter(b'\n', &bytes[here.entry.start.min(at)..at]).count();
    let line_start = memchr::memrchr(b'\n', &bytes[..at]).map_or(0, |n| n + 1);
    let line_end = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |n| at + n);
    let width = if after { 1 } else { word.len() };
    let mut notes: Vec<String> = trouble.note.into_iter().collect();
    notes.extend(file.included_from.as_deref().map(str::to_owned));
    Fault {
        kind: trouble.kind,
        severity: trouble.severity,
        file: file.name.clone(),
        line: here.entry.line.saturating_add(lines as u32),
        column: u32::try_from(at - line_start + 1).unwrap_or(u32::MAX),
        message: trouble.message,
        note: (!notes.is_empty()).then(|| notes.join("; ")),
        excerpt: Some(Excerpt::new(&bytes[line_start..line_end], at - line_start, width)),
        about: None,
    }
}

/// Returns a word of the file for a message: printable, and not too long.
pub(super) fn show(word: &[u8]) -> String {
    const MAX_SHOWN_BYTES: usize = 64;
    let (front, more) =
        if word.len() > MAX_SHOWN_BYTES { (&word[..MAX_SHOWN_BYTES], "…") } else { (word, "") };
    let text: String =
        String::from_utf8_lossy(front).chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    format!("`{text}{more}`")
}

/// Returns the note for a string that is too long: the same in strings of 255 bytes, which readers join (RFC
/// 7208 §3.3, RFC 6376 §3.6.2.2).
#[cold]
fn split_string(token: Token<'_>) -> String {
    let (mut bytes, mut out) = (Vec::new(), String::from("write it as several strings:"));
    // It was unescaped before, without a fault.
    let _ = text::unescape(token.bytes, &mut bytes);
    for part in bytes.chunks(255) {
        out.push(' ');
        // Writing to a String cannot fail.
        let _ = text::write_quoted(part, &mut out);
    }
    out
}

#[cold]
pub(super) fn quoted_field(token: Token<'_>) -> Box<Trouble<'_>> {
    Trouble::at(
        token,
        FaultKind::QuotedField,
        "quotes are allowed only around strings in record data and around file names",
    )
}

#[cold]
pub(super) fn bad_ttl(token: Token<'_>) -> Box<Trouble<'_>> {
    let message = format!("{} is not a TTL", show(token.bytes));
    let note =
        "a TTL is a number of seconds below 4294967296, or numbers with units such as 1h30m (w d h m s)";
    Trouble::at(token, FaultKind::BadTtl, message).with_note(note)
}

#[cold]
fn unknown_type(token: Token<'_>, first: bool) -> Box<Trouble<'_>> {
    let trouble =
        Trouble::at(token, FaultKind::UnknownType, format!("unknown record type {}", show(token.bytes)));
    if token.bytes.starts_with(b"$") {
        return trouble.with_note("a directive starts in the first column");
    }
    if first {
        return trouble.with_note("a line that begins with a blank continues the owner of the line before");
    }
    trouble
}
