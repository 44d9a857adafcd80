//! Parses the language of nsupdate, line by line: the command of a line, or its fault and place. Sends
//! nothing.

use std::ops::Range;
use std::sync::Arc;

use transfer::tsig::{TsigAlgorithm, TsigKey};
use wire::message::Section;
use wire::rdata::parse_text;
use wire::text::{Token, tokens};
use wire::{Class, Name, NameBuf, Ttl, Type};

use config::report::{ConfigPlace, Diagnostic};
use wording::did_you_mean;

/// The command of a line.
#[derive(Debug, Clone)]
pub enum ScriptCommand {
    /// Send updates to this server, written as after `@` in `nomen query`.
    Server(String),
    /// The zone to update.
    Zone(NameBuf),
    /// The class of the zone.
    Class(Class),
    /// The key to sign with.
    Key(Arc<TsigKey>),
    /// A prerequisite or an update.
    Record(UpdateRecord),
    /// Show the message so far.
    Show,
    /// Send the message.
    Send,
    /// Show the last answer.
    Answer,
    /// Stop reading lines.
    Quit,
    /// Accepted without effect, for this reason.
    Ignored(&'static str),
}

/// A record of an update message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateRecord {
    /// The section: [`Section::Answer`] for prerequisites, [`Section::Authority`] for updates.
    pub section: Section,
    /// The owner.
    pub owner: NameBuf,
    /// The type.
    pub rtype: Type,
    /// The class: that of the zone, ANY or NONE.
    pub class: Class,
    /// The TTL.
    pub ttl: Ttl,
    /// The data, uncompressed.
    pub rdata: Vec<u8>,
}

/// The first words of lines.
const VERBS: [&str; 24] = [
    "server",
    "local",
    "zone",
    "class",
    "ttl",
    "key",
    "gsstsig",
    "oldgsstsig",
    "realm",
    "prereq",
    "nxdomain",
    "yxdomain",
    "nxrrset",
    "yxrrset",
    "update",
    "add",
    "delete",
    "del",
    "show",
    "send",
    "answer",
    "quit",
    "debug",
    "check-names",
];
const PREREQUISITES: [&str; 4] = ["nxdomain", "yxdomain", "nxrrset", "yxrrset"];

/// Parses lines, and stores the settings that earlier lines make for later ones.
#[derive(Debug)]
pub struct ScriptReader {
    class: Class,
    ttl: Option<Ttl>,
}

impl Default for ScriptReader {
    fn default() -> Self {
        Self { class: Class::IN, ttl: None }
    }
}

impl ScriptReader {
    /// Parses the line at `span` of `text`, the text with number `source`. An empty line sends the message,
    /// as in nsupdate; a line that begins with a semicolon is a comment.
    ///
    /// # Errors
    /// The fault, at the word that has it.
    pub fn line(
        &mut self,
        source: usize,
        text: &str,
        span: Range<usize>,
    ) -> Result<Option<ScriptCommand>, Diagnostic> {
        let mut words = Words::of(source, text, span.clone());
        let Some(verb) = words.next() else { return Ok(Some(ScriptCommand::Send)) };
        // Only at the start of a line: elsewhere a semicolon is data, as in nsupdate.
        if verb.bytes.starts_with(b";") && !verb.quoted {
            return Ok(None);
        }
        let command = self.command(verb, &mut words)?;
        match words.next() {
            Some(extra) => Err(words.fault(extra, "nothing more is expected here")),
            None => Ok(command),
        }
    }

    fn command(
        &mut self,
        verb: Token<'_>,
        words: &mut Words<'_>,
    ) -> Result<Option<ScriptCommand>, Diagnostic> {
        Ok(Some(match lower(verb).as_str() {
            "server" => ScriptCommand::Server(server(words)?),
            "zone" => ScriptCommand::Zone(words.name("the name of the zone")?),
            "class" => {
                self.class = words.class()?;
                ScriptCommand::Class(self.class)
            }
            "ttl" => {
                self.ttl = Some(words.ttl()?);
                return Ok(None);
            }
            "key" => ScriptCommand::Key(Arc::new(key(words)?)),
            "prereq" => {
                let kind = words.need("nxdomain, yxdomain, nxrrset or yxrrset")?;
                self.prerequisite(kind, words)?
            }
            "update" => {
                let kind = words.need("add or delete")?;
                self.update(kind, words)?
            }
            "add" | "delete" | "del" => self.update(verb, words)?,
            prerequisite if PREREQUISITES.contains(&prerequisite) => self.prerequisite(verb, words)?,
            "show" => ScriptCommand::Show,
            "send" => ScriptCommand::Send,
            "answer" => ScriptCommand::Answer,
            "quit" => ScriptCommand::Quit,
            "local" => {
                words.rest();
                ScriptCommand::Ignored("`local` is ignored: the system chooses the address to send from")
            }
            "debug" | "check-names" => {
                words.rest();
                return Ok(None);
            }
            "gsstsig" | "oldgsstsig" | "realm" => {
                return Err(words.fault(verb, "GSS-TSIG is not supported; sign with `key`, or with --key"));
            }
            other => {
                let fault = words.fault(verb, "no such command");
                return Err(match did_you_mean(other, VERBS) {
                    Some(near) => fault.hint(format!("did you mean `{near}`?")),
                    None => fault,
                });
            }
        }))
    }

    fn prerequisite(&self, kind: Token<'_>, words: &mut Words<'_>) -> Result<ScriptCommand, Diagnostic> {
        let (class, of_rrset) = match lower(kind).as_str() {
            "nxdomain" => (Class::NONE, false),
            "yxdomain" => (Class::ANY, false),
            "nxrrset" => (Class::NONE, true),
            "yxrrset" => (Class::ANY, true),
            _ => return Err(words.fault(kind, "expected nxdomain, yxdomain, nxrrset or yxrrset")),
        };
        let owner = words.name("a name")?;
        let (mut rtype, mut rdata) = (Type::ANY, None);
        if of_rrset {
            self.skip_class(words)?;
            rtype = words.rtype()?;
            rdata = if class == Class::ANY { words.data(rtype)? } else { None };
        }
        let class = if rdata.is_some() { self.class } else { class };
        let rdata = rdata.unwrap_or_default();
        Ok(ScriptCommand::Record(UpdateRecord {
            section: Section::Answer,
            owner,
            rtype,
            class,
            ttl: Ttl::ZERO,
            rdata,
        }))
    }

    fn update(&self, kind: Token<'_>, words: &mut Words<'_>) -> Result<ScriptCommand, Diagnostic> {
        let section = Section::Authority;
        match lower(kind).as_str() {
            "add" => {
                let owner = words.name("a name")?;
                let ttl = match (words.peek().filter(is_number), self.ttl) {
                    (None, Some(ttl)) => ttl,
                    _ => words.ttl()?,
                };
                self.skip_class(words)?;
                let rtype = words.rtype()?;
                let rdata = words.data(rtype)?.ok_or_else(|| words.missing("the data of the record"))?;
                Ok(ScriptCommand::Record(UpdateRecord {
                    section,
                    owner,
                    rtype,
                    class: self.class,
                    ttl,
                    rdata,
                }))
            }
            "delete" | "del" => {
                let owner = words.name("a name")?;
                if words.peek().is_some_and(|word| is_number(&word)) {
                    words.ttl()?;
                }
                self.skip_class(words)?;
                let rtype = if words.peek().is_some() { words.rtype()? } else { Type::ANY };
                let rdata = if rtype == Type::ANY { None } else { words.data(rtype)? };
                let class = if rdata.is_some() { Class::NONE } else { Class::ANY };
                let rdata = rdata.unwrap_or_default();
                Ok(ScriptCommand::Record(UpdateRecord {
                    section,
                    owner,
                    rtype,
                    class,
                    ttl: Ttl::ZERO,
                    rdata,
                }))
            }
            _ => Err(words.fault(kind, "expected add or delete")),
        }
    }

    /// Skips a class, which must be that of the zone. ANY is parsed as a type.
    fn skip_class(&self, words: &mut Words<'_>) -> Result<(), Diagnostic> {
        let is_class = |word: &Token<'_>| Class::from_text(word.bytes).is_ok_and(|class| class != Class::ANY);
        let Some(word) = words.peek().filter(is_class) else { return Ok(()) };
        match words.class()? == self.class {
            true => Ok(()),
            false => Err(words.fault(word, format!("the class of the zone is {}", self.class))),
        }
    }
}

fn lower(word: Token<'_>) -> String {
    if word.quoted { String::new() } else { String::from_utf8_lossy(word.bytes).to_ascii_lowercase() }
}

fn is_number(word: &Token<'_>) -> bool {
    !word.quoted && word.bytes.iter().all(u8::is_ascii_digit)
}

/// Parses `HOST [PORT]`.
fn server(words: &mut Words<'_>) -> Result<String, Diagnostic> {
    let host = words.need("the server")?;
    let host = String::from_utf8_lossy(host.bytes).into_owned();
    let Some(port) = words.next() else { return Ok(host) };
    let text = String::from_utf8_lossy(port.bytes);
    match text.parse::<u16>() {
        Ok(port) => Ok(format!("{host}#{port}")),
        Err(_) => Err(words.fault(port, "not a port")),
    }
}

/// Parses `[ALGORITHM:]NAME SECRET`.
fn key(words: &mut Words<'_>) -> Result<TsigKey, Diagnostic> {
    let name_word = words.need("the name of the key")?;
    let secret_word = words.need("the secret of the key, in base64")?;
    let (name, secret) =
        (String::from_utf8_lossy(name_word.bytes), String::from_utf8_lossy(secret_word.bytes));
    let (algorithm, name) = name.split_once(':').map_or((None, &*name), |(front, name)| (Some(front), name));
    let algorithm = match algorithm {
        Some(text) => TsigAlgorithm::from_text(text).ok_or_else(|| {
            words.fault(name_word, format!("`{text}` is no algorithm; hmac-sha256 is what most servers have"))
        })?,
        None => TsigAlgorithm::HmacSha256,
    };
    let name = NameBuf::from_text(name.as_bytes(), Some(Name::ROOT))
        .map_err(|fault| words.fault(name_word, format!("not a domain name: {fault}")))?;
    TsigKey::from_base64(name.as_name(), algorithm, &secret)
        .map_err(|fault| words.fault(secret_word, fault.to_string()))
}

/// The words of a line.
struct Words<'t> {
    source: usize,
    text: &'t str,
    /// The byte range of the line.
    span: Range<usize>,
    words: std::vec::IntoIter<Token<'t>>,
}

impl<'t> Words<'t> {
    fn of(source: usize, text: &'t str, span: Range<usize>) -> Self {
        let words: Vec<Token<'t>> = tokens(&text[span.clone()]).collect();
        Words { source, text, span, words: words.into_iter() }
    }

    fn next(&mut self) -> Option<Token<'t>> {
        self.words.next()
    }

    fn peek(&self) -> Option<Token<'t>> {
        self.words.as_slice().first().copied()
    }

    /// Returns all remaining words.
    fn rest(&mut self) -> Vec<Token<'t>> {
        self.words.by_ref().collect()
    }

    fn need(&mut self, what: &str) -> Result<Token<'t>, Diagnostic> {
        self.next().ok_or_else(|| self.missing(what))
    }

    fn name(&mut self, what: &str) -> Result<NameBuf, Diagnostic> {
        let word = self.need(what)?;
        NameBuf::from_text(word.bytes, Some(Name::ROOT))
            .map_err(|fault| self.fault(word, format!("not a domain name: {fault}")))
    }

    fn ttl(&mut self) -> Result<Ttl, Diagnostic> {
        let word = self.need("a TTL in seconds")?;
        let seconds = std::str::from_utf8(word.bytes).ok().and_then(|text| text.parse::<u32>().ok());
        let known = seconds.filter(|seconds| is_number(&word) && *seconds <= Ttl::MAX.as_secs());
        let fault = || {
            let fault = self.fault(word, "expected a TTL: a number of seconds up to 2147483647");
            fault.hint("`ttl SECONDS` before makes it unnecessary")
        };
        known.map(Ttl::from_secs).ok_or_else(fault)
    }

    fn class(&mut self) -> Result<Class, Diagnostic> {
        let word = self.need("a class")?;
        let known =
            Class::from_text(word.bytes).ok().filter(|class| ![Class::ANY, Class::NONE].contains(class));
        known.ok_or_else(|| self.fault(word, "not the class of a zone"))
    }

    fn rtype(&mut self) -> Result<Type, Diagnostic> {
        let word = self.need("a record type")?;
        let fault = || self.fault(word, "not a record type");
        let found = Type::from_text(word.bytes).map_err(|_| fault())?;
        if found.is_meta() && found != Type::ANY { Err(fault()) } else { Ok(found) }
    }

    /// Parses the data of a record, if any word is left.
    fn data(&mut self, rtype: Type) -> Result<Option<Vec<u8>>, Diagnostic> {
        let (words, mut rdata) = (self.rest(), Vec::new());
        if words.is_empty() {
            return Ok(None);
        }
        if rtype == Type::ANY {
            return Err(self.fault(words[0], "records of type ANY have no data"));
        }
        match parse_text(rtype, &words, Some(Name::ROOT), &mut rdata) {
            Ok(()) => Ok(Some(rdata)),
            Err(fault) => Err(match words.get(fault.token) {
                Some(word) => self.fault(*word, fault.to_string()),
                None => self.fault_at(self.end(), fault.to_string()),
            }),
        }
    }

    fn missing(&self, what: &str) -> Diagnostic {
        self.fault_at(self.end(), format!("expected {what}"))
    }

    /// Returns the end of the line.
    fn end(&self) -> Range<usize> {
        let end = self.span.start + self.text[self.span.clone()].trim_end().len();
        end..end
    }

    fn fault(&self, word: Token<'_>, message: impl Into<String>) -> Diagnostic {
        // `word.bytes` points into `text`.
        let start =
            (word.bytes.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize).min(self.text.len());
        self.fault_at(start..(start + word.bytes.len()).min(self.text.len()), message)
    }

    fn fault_at(&self, span: Range<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(ConfigPlace { source: self.source, span }, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The command of the last line; earlier lines also take effect.
    fn read(text: &str) -> Result<Option<ScriptCommand>, (usize, String)> {
        let mut reader = ScriptReader::default();
        let (mut start, mut last) = (0, Ok(None));
        for line in text.split('\n') {
            last = reader.line(0, text, start..start + line.len());
            start += line.len() + 1;
        }
        last.map_err(|fault| (fault.place.expect("a place").span.start, fault.message))
    }

    fn record(text: &str) -> String {
        match read(text) {
            Ok(Some(ScriptCommand::Record(UpdateRecord { section, owner, rtype, class, ttl, rdata }))) => {
                let mut data = String::new();
                if !rdata.is_empty() {
                    wire::rdata::write_text(rtype, &rdata, &mut data).expect("written");
                }
                format!("{section:?} {owner} {ttl} {class} {rtype} {data}").trim_end().to_owned()
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn updates_and_prerequisites_have_long_and_short_forms() {
        for (text, expected) in [
            ("update add a.example 60 A 192.0.2.1", "Authority a.example. 60 IN A 192.0.2.1"),
            ("ADD a.example. 60 in a 192.0.2.1", "Authority a.example. 60 IN A 192.0.2.1"),
            ("ttl 7\nadd a.example. TXT \"a;b\" ;c", "Authority a.example. 7 IN TXT \"a;b\" \";c\""),
            ("ttl 7\nadd a.example. 8 TXT x", "Authority a.example. 8 IN TXT \"x\""),
            ("update delete a.example", "Authority a.example. 0 ANY ANY"),
            ("del a.example ANY", "Authority a.example. 0 ANY ANY"),
            ("del a.example 300 IN MX", "Authority a.example. 0 ANY MX"),
            ("update del a.example MX 10 mail.example", "Authority a.example. 0 NONE MX 10 mail.example."),
            ("prereq nxdomain a.example", "Answer a.example. 0 NONE ANY"),
            ("yxdomain a.example", "Answer a.example. 0 ANY ANY"),
            ("prereq nxrrset a.example TYPE65280", "Answer a.example. 0 NONE TYPE65280"),
            ("yxrrset a.example IN A", "Answer a.example. 0 ANY A"),
            ("prereq yxrrset a.example A 192.0.2.1", "Answer a.example. 0 IN A 192.0.2.1"),
            ("class CH\nadd a.example 1 TXT x", "Authority a.example. 1 CH TXT \"x\""),
        ] {
            assert_eq!(record(text), expected, "{text}");
        }
    }

    #[test]
    fn a_blank_line_sends_and_a_comment_does_nothing() {
        assert!(matches!(read("  \t"), Ok(Some(ScriptCommand::Send))));
        assert!(matches!(read("; all of it"), Ok(None)));
        assert!(matches!(read("show"), Ok(Some(ScriptCommand::Show))));
        assert!(matches!(read("local 192.0.2.1 53"), Ok(Some(ScriptCommand::Ignored(_)))));
        assert!(
            matches!(read("server ns.example 5353"), Ok(Some(ScriptCommand::Server(text))) if text == "ns.example#5353")
        );
        let key = read("key hmac-sha512:k.example c2VjcmV0");
        let Ok(Some(ScriptCommand::Key(key))) = key else { panic!("{key:?}") };
        assert_eq!(
            (key.name().to_string().as_str(), key.algorithm()),
            ("k.example.", TsigAlgorithm::HmacSha512)
        );
    }

    #[test]
    fn a_fault_points_at_the_word() {
        for (text, at, message) in [
            ("updat add", 0, "no such command"),
            ("update ad a", 7, "expected add or delete"),
            ("add a.example A 192.0.2.1", 14, "expected a TTL: a number of seconds up to 2147483647"),
            ("add a.example 60 A", 18, "expected the data of the record"),
            (
                "add a..b 60 A 192.0.2.1",
                4,
                "not a domain name: empty label (two dots in a row, or a dot in front)",
            ),
            ("add a.example 60 AXFR x", 17, "not a record type"),
            ("add a.example 60 CH TXT x", 17, "the class of the zone is IN"),
            ("nxdomain a.example x", 19, "nothing more is expected here"),
            ("server ns.example dns", 18, "not a port"),
            ("realm EXAMPLE", 0, "GSS-TSIG is not supported; sign with `key`, or with --key"),
            (
                "key hmac-md5:k c2VjcmV0",
                4,
                "`hmac-md5` is no algorithm; hmac-sha256 is what most servers have",
            ),
            ("key k ?", 6, "the secret is not base64"),
        ] {
            assert_eq!(read(text).map(|_| ()), Err((at, message.to_owned())), "{text}");
        }
        let (at, _) = read("add a.example 60 A 192.0.2.300").expect_err("no address");
        assert_eq!(at, 19);
    }
}
