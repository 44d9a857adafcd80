//! The words of `nomen query` in any order, as in dig: NAME, TYPE, CLASS, @SERVER and +OPTIONs. A second name
//! begins a second query: words before the first name apply to all queries, those after a name to its query.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use transport::Transport;
use wire::name::{Name, NameBuf, NameTextError};

use wire::{Class, Serial, Type};

use super::options::{self, chase, trace};
use super::secured::TlsWanted;
use super::transfer::is_transfer;
use crate::args::QueryArgs;
use message::QuerySpec;
use message::print::MessageParts;

/// The ports of DNS, of DNS over TLS and QUIC (RFC 7858 §3.1, RFC 9250 §4.1.1), and of HTTPS.
const DNS_PORT: u16 = 53;
const TLS_PORT: u16 = 853;
const HTTPS_PORT: u16 = 443;

/// The format of the answer's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Every section, as in dig.
    Full,
    /// The data of the answer section only.
    Short,
    /// JSON (after RFC 8427).
    Json,
    /// YAML, as in dig.
    Yaml,
}

/// The address family of the queried servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Family {
    /// Any.
    #[default]
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

impl Family {
    /// Returns whether an address is in the family.
    pub fn takes(self, ip: IpAddr) -> bool {
        self.wants(if ip.is_ipv4() { Type::A } else { Type::AAAA })
    }

    /// Returns whether addresses of this type are in the family.
    pub fn wants(self, qtype: Type) -> bool {
        match self {
            Self::Any => true,
            Self::V4 => qtype == Type::A,
            Self::V6 => qtype == Type::AAAA,
        }
    }
}

/// How a query goes by Oblivious DoH.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObliviousWanted {
    /// The URL of the proxy; `None`: directly to the target.
    pub proxy: Option<String>,
    /// The path at the target; `None`: `/dns-query`.
    pub path: Option<String>,
}

/// A query, its servers, and the options of the exchange and the output.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// The query.
    pub query: QuerySpec,
    /// The server; until `host` is looked up, only its port is used.
    pub server: SocketAddr,
    /// The server's name, if it was not given as an address.
    pub host: Option<String>,
    /// Servers to query if `server` does not answer, in this order.
    pub others: Vec<SocketAddr>,
    /// Whether the next server is queried after SERVFAIL.
    pub past_failure: bool,
    /// The source address.
    pub source: Option<SocketAddr>,
    /// Print the command line.
    pub show_command: bool,
    /// In the short form, print the server that sent each record.
    pub identify: bool,
    /// The address family of the server.
    pub family: Family,
    /// The output format.
    pub form: Form,
    /// The parts that the full form shows.
    pub parts: MessageParts,
    /// Use TCP from the start.
    pub tcp: bool,
    /// Use TLS, with this authentication of the server.
    pub tls: Option<TlsWanted>,
    /// With TLS: use QUIC, not TCP.
    pub quic: bool,
    /// Use Oblivious DoH: the server is its target, and `tls` has its name and the CA certificates.
    pub oblivious: Option<ObliviousWanted>,
    /// Keep a truncated answer instead of retrying over TCP.
    pub keep_truncated: bool,
    /// Show the query as well.
    pub show_query: bool,
    /// Timeout of each try.
    pub time: Duration,
    /// Number of tries over UDP.
    pub tries: u32,
    /// Whether the command line names a server.
    pub has_server: bool,
    /// Walk from the root servers to the answer, and show each step.
    pub trace: bool,
    /// The port of the servers on a walk.
    pub walk_port: u16,
    /// Validate the answer, and show the chain of trust.
    pub chase: bool,
    /// Complete names by a search list.
    pub search: bool,
    /// The domain that completes names, in place of the list of `/etc/resolv.conf`.
    pub domain: Option<NameBuf>,
    /// The number of dots from which a name is tried as it is first.
    pub ndots: Option<usize>,
    /// The name as it was written, if it does not end with a dot.
    pub relative: Option<String>,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            query: QuerySpec::default(),
            server: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 53),
            host: None,
            others: Vec::new(),
            past_failure: false,
            source: None,
            show_command: false,
            identify: false,
            family: Family::Any,
            form: Form::Full,
            parts: MessageParts::ALL,
            tcp: false,
            tls: None,
            quic: false,
            oblivious: None,
            keep_truncated: false,
            show_query: false,
            time: Duration::from_secs(3),
            tries: 3,
            has_server: false,
            trace: false,
            walk_port: 53,
            chase: false,
            search: false,
            domain: None,
            ndots: None,
            relative: None,
        }
    }
}

impl Wanted {
    /// Whether the query goes over a stream from the start.
    pub fn is_stream(&self) -> bool {
        self.tcp || self.tls.is_some() || self.oblivious.is_some()
    }

    /// Returns the transport of its streams.
    pub fn stream(&self) -> Transport {
        match (self.tls.is_some(), self.quic) {
            _ if self.oblivious.is_some() => Transport::Https,
            (false, _) => Transport::Tcp,
            (true, false) => Transport::Tls,
            (true, true) => Transport::Quic,
        }
    }

    /// Takes the port of DNS over TLS (RFC 7858 §3.1) in place of that of DNS, if the server is asked over
    /// TLS, and that of HTTPS for Oblivious DoH.
    pub fn choose_port(&mut self) {
        if self.oblivious.is_some() && self.server.port() == DNS_PORT {
            self.server.set_port(HTTPS_PORT);
        } else if self.tls.is_some() && self.server.port() == DNS_PORT {
            self.server.set_port(TLS_PORT);
        }
    }
}

/// Why a word is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WordFault {
    /// Both are types for the same query.
    Types(Type, Type),
    /// It is not a domain name.
    Name(String, NameTextError),
    /// It is neither an IP address nor a host name.
    Server(String),
    /// The server's address is not in the selected family.
    Family(IpAddr),
    /// It is neither a type nor IXFR with a serial.
    Type(String),
    /// It is not a class.
    Class(String),
    /// It is not a port.
    Port(String),
    /// There is no such option; with a similar one.
    Option(String, Option<&'static str>),
    /// It abbreviates several options.
    Ambiguous(String, Vec<&'static str>),
    /// An option of dig that does not exist here, with an alternative.
    Unsupported(String, &'static str),
    /// It is neither the number nor the name of an opcode.
    Opcode(String),
    /// It is not an EDNS option: CODE or CODE:HEX.
    EdnsOption(String),
    /// It is not a cookie in hexadecimal digits.
    Cookie(String),
    /// It is not a source address.
    Source(String),
    /// The source address is of another family than the server's.
    SourceFamily(IpAddr, IpAddr),
    /// The option needs a value.
    NoValue(String),
    /// The option's value is not a number within these bounds.
    Number {
        /// The option.
        name: String,
        /// Its value.
        value: String,
        /// The smallest allowed value.
        min: u64,
        /// The largest allowed value.
        max: u64,
    },
    /// It is not a network address.
    Subnet(String),
    /// It is neither the name of a host nor an address.
    TlsName(String),
    /// It is not the path of a URL.
    HttpPath(String),
    /// It is not the digest of a key: why.
    TlsPin(String),
    /// IXFR without the client's serial, or with an invalid one.
    Ixfr(String),
    /// A zone transfer comes from one server, and is not validated.
    Walked(Type),
    /// Answers in this class cannot be validated.
    Chased(Class),
}

impl fmt::Display for WordFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Types(first, second) => write!(
                f,
                "`{first}` and `{second}` are two types of one query; a name like a type is written with a \
                dot, `{second}.`"
            ),
            Self::Name(text, fault) => write!(f, "`{text}` is not a domain name: {fault}"),
            Self::Server(text) => write!(f, "`{text}` is neither an address nor the name of a server"),
            Self::Family(ip) => write!(f, "`{ip}` is not an address of the family that -4 or -6 asks for"),
            Self::Type(text) => write!(f, "`{text}` is no record type"),
            Self::Class(text) => write!(f, "`{text}` is no class"),
            Self::Port(port) => write!(f, "`{port}` is not a port"),
            Self::Option(word, None) => write!(f, "unknown option +{word}"),
            Self::Option(word, Some(near)) => write!(f, "unknown option +{word}; did you mean +{near}?"),
            Self::Ambiguous(word, names) => write!(f, "+{word} is short for +{}", names.join(" and for +")),
            Self::Unsupported(word, instead) => write!(f, "+{word} is not supported: {instead}"),
            Self::Opcode(text) => {
                write!(f, "+opcode={text}: a number up to 15, or a name such as NOTIFY, is expected")
            }
            Self::EdnsOption(text) => {
                write!(f, "+ednsopt={text}: a code, or a code and data such as 65001:c0ffee, is expected")
            }
            Self::Cookie(text) => {
                write!(f, "+cookie={text}: 16 to 80 hexadecimal digits are expected (RFC 7873 section 4)")
            }
            Self::Source(text) => write!(f, "-b {text}: an address, or ADDRESS#PORT, is expected"),
            Self::SourceFamily(source, server) => {
                write!(f, "{server} cannot be asked from {source}: the addresses are of two families")
            }
            Self::NoValue(name) => write!(f, "+{name} needs a value: +{name}=…"),
            Self::Number { name, value, min, max } => {
                write!(f, "+{name}={value}: a number between {min} and {max} is expected")
            }
            Self::TlsName(text) => {
                write!(f, "+tls-hostname={text}: the name of the server's certificate is expected")
            }
            Self::HttpPath(text) => write!(f, "+odoh-path={text}: a path such as /dns-query is expected"),
            Self::TlsPin(why) => write!(f, "+tls-pin: {why}"),
            Self::Subnet(text) => write!(f, "+subnet={text}: an address such as 192.0.2.0/24 is expected"),
            Self::Ixfr(word) => {
                write!(f, "`{word}`: the serial that you have is needed, as in IXFR=2026010100")
            }
            Self::Walked(qtype) => write!(f, "{qtype} goes with neither --trace nor --chase"),
            Self::Chased(class) => write!(f, "--chase is for class IN, and not for {class}"),
        }
    }
}

impl std::error::Error for WordFault {}

/// Parses the words of one or more queries.
///
/// # Errors
/// [`WordFault`] of the first word that is not accepted.
pub fn read(args: &QueryArgs) -> Result<Vec<Wanted>, WordFault> {
    let mut common = Reading::default();
    if let Some(text) = &args.rtype {
        match ixfr_word(text)? {
            Some(serial) => common.ixfr(serial),
            None => common.qtype = Some(text.parse().map_err(|_| WordFault::Type(text.clone()))?),
        }
        common.type_is_fixed = true;
    }
    if let Some(text) = &args.class {
        common.wanted.query.qclass = text.parse().map_err(|_| WordFault::Class(text.clone()))?;
    }
    if args.trace {
        trace(&mut common.wanted, true);
    }
    if args.chase {
        chase(&mut common.wanted, true);
    }
    let mut done = Vec::new();
    let mut reading = common.clone();
    if let Some(ip) = args.reverse {
        (reading.name, reading.qtype) = (Some(reverse(ip)), Some(Type::PTR));
    }
    if let Some(name) = &args.name {
        reading.name = Some(name.clone());
    }
    for word in &args.words {
        let has_more = args.words.len() > 1;
        if !reading.take(word, has_more)? {
            // The words before the first name apply to this query as well.
            done.push(std::mem::replace(&mut reading, common.clone()).end(args)?);
            reading.name = Some(word.clone());
        } else if reading.name.is_none() {
            common = reading.clone();
        }
    }
    done.push(reading.end(args)?);
    Ok(done)
}

/// The state of parsing one query.
#[derive(Clone, Default)]
struct Reading {
    wanted: Wanted,
    name: Option<String>,
    qtype: Option<Type>,
    /// The type was given by an option, so a word that looks like a type is a name.
    type_is_fixed: bool,
    /// Whether a server is among the words.
    has_server: bool,
}

impl Reading {
    /// Parses a word. Returns false if it is the name of another query.
    fn take(&mut self, word: &str, has_more: bool) -> Result<bool, WordFault> {
        if let Some(server) = word.strip_prefix('@') {
            self.has_server = true;
            read_server(&mut self.wanted, server)?;
        } else if let Some(option) = word.strip_prefix('+') {
            options::read(&mut self.wanted, option)?;
        } else if let Some(class) = class_word(word, self.name.is_some()) {
            self.wanted.query.qclass = class;
        } else if let Some(serial) = ixfr_word(word)? {
            self.ixfr(serial);
        } else if let Some(found) =
            type_word(word, self.name.is_some() || has_more).filter(|_| !self.type_is_fixed)
            && (self.qtype.is_none() || self.name.is_some())
        {
            // A name that looks like a type needs a dot if another name precedes it.
            match self.qtype.replace(found) {
                None => {}
                Some(before) if self.name.is_some() => return Err(WordFault::Types(before, found)),
                Some(_) => {}
            }
        } else if self.name.is_none() {
            self.name = Some(word.to_owned());
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn ixfr(&mut self, serial: Serial) {
        (self.qtype, self.wanted.query.has_version) = (Some(Type::IXFR), Some(serial));
    }

    /// Returns the query, once all its words are parsed.
    fn end(self, args: &QueryArgs) -> Result<Wanted, WordFault> {
        let Reading { mut wanted, name, qtype, has_server, .. } = self;
        if let Some(text) = &args.source {
            wanted.source = Some(source(text)?);
        }
        if let Some(port) = args.port {
            wanted.server.set_port(port);
            wanted.walk_port = port;
        }
        wanted.has_server = has_server;
        choose_family(&mut wanted, args, has_server)?;
        // `nomen query @server` asks for the root's servers, as dig does.
        let default_type = if name.is_none() { Type::NS } else { Type::A };
        let is_relative = |text: &String| wanted.search && text.is_ascii() && !text.ends_with('.');
        wanted.relative = name.clone().filter(is_relative);
        wanted.query.name = name.map_or(Ok(NameBuf::ROOT), |text| name_of(&text))?;
        wanted.query.qtype = qtype.unwrap_or(default_type);
        // The option must not be sent over UDP (RFC 7828 §3.2.1).
        wanted.query.keepalive &= wanted.is_stream();
        if wanted.stream() == Transport::Quic {
            // RFC 9250 §4.2.1, §5.5.2.
            wanted.query.id.get_or_insert(0);
            wanted.query.keepalive = false;
            if wanted.tls.as_ref().is_some_and(|tls| tls.certificate.is_some() || tls.key.is_some()) {
                let instead = "servers ask for certificates over TLS only";
                return Err(WordFault::Unsupported("tls-certfile with +quic".into(), instead));
            }
        }
        oblivious(&mut wanted)?;
        if wanted.tls.is_some() && (wanted.trace || wanted.chase) {
            let instead = "--trace and --chase ask many servers, of which most have no TLS";
            return Err(WordFault::Unsupported(wanted.stream().label().into(), instead));
        }
        wanted.choose_port();
        if (wanted.trace || wanted.chase) && is_transfer(wanted.query.qtype) {
            return Err(WordFault::Walked(wanted.query.qtype));
        }
        if (wanted.trace || wanted.chase) && wanted.form == Form::Yaml {
            return Err(WordFault::Unsupported("yaml".into(), "with --trace and --chase it is +json"));
        }
        if wanted.chase && wanted.query.qclass != Class::IN {
            return Err(WordFault::Chased(wanted.query.qclass));
        }
        // Without signatures nothing can be validated.
        wanted.query.dnssec_ok |= wanted.chase;
        Ok(wanted)
    }
}

/// Checks and completes the options of a query by Oblivious DoH.
fn oblivious(wanted: &mut Wanted) -> Result<(), WordFault> {
    if wanted.oblivious.is_none() {
        return Ok(());
    }
    let unsupported = |option: &str, instead| Err(WordFault::Unsupported(option.to_owned(), instead));
    // Where the name of the target is stored.
    let tls = wanted.tls.get_or_insert_default();
    if wanted.quic {
        return unsupported("quic with +odoh", "Oblivious DoH goes over HTTPS");
    }
    if tls.certificate.is_some() || !tls.pins.is_empty() {
        let instead = "servers are verified by their names: +tls-ca=FILE has CA certificates";
        return unsupported("tls-pin or +tls-certfile with +odoh", instead);
    }
    if !wanted.has_server {
        return unsupported("odoh without a server", "@SERVER is the target");
    }
    if is_transfer(wanted.query.qtype) {
        return unsupported("odoh for a zone transfer", "a response has one message");
    }
    // RFC 8484 §4.1.
    wanted.query.id.get_or_insert(0);
    wanted.query.keepalive = false;
    Ok(())
}

/// Parses a name; converts non-ASCII letters by IDNA (RFC 5891).
pub(super) fn name_of(text: &str) -> Result<NameBuf, WordFault> {
    let ascii = match text.is_ascii() {
        true => None,
        false => idna::domain_to_ascii(text).ok(),
    };
    let written = ascii.as_deref().unwrap_or(text);
    NameBuf::from_text(written.as_bytes(), Some(Name::ROOT))
        .map_err(|fault| WordFault::Name(text.to_owned(), fault))
}

/// Parses a word as a type. `A` and the like are types even as the first word, unless it is the only one.
fn type_word(word: &str, others: bool) -> Option<Type> {
    if !others || word.contains('.') {
        return None;
    }
    word.parse().ok()
}

/// Parses `IXFR=serial`; IXFR alone is a fault, since the server needs a serial to compare with (RFC 1995
/// §3).
fn ixfr_word(word: &str) -> Result<Option<Serial>, WordFault> {
    let fault = || WordFault::Ixfr(word.to_owned());
    match word.split_once('=') {
        Some((front, serial)) if front.eq_ignore_ascii_case("IXFR") => {
            serial.parse().map(|serial| Some(Serial(serial))).map_err(|_| fault())
        }
        None if word.eq_ignore_ascii_case("IXFR") => Err(fault()),
        _ => Ok(None),
    }
}

fn class_word(word: &str, has_name: bool) -> Option<Class> {
    match word.to_ascii_uppercase().as_str() {
        // ANY is a type first.
        "IN" | "CH" | "HS" => word.parse().ok(),
        text if has_name && text.starts_with("CLASS") => word.parse().ok(),
        _ => None,
    }
}

/// Applies -4 and -6: the address family of a named server, or of the loopback address without a server.
fn choose_family(wanted: &mut Wanted, args: &QueryArgs, has_server: bool) -> Result<(), WordFault> {
    wanted.family = match (args.v4, args.v6) {
        (true, _) => Family::V4,
        (_, true) => Family::V6,
        _ => Family::Any,
    };
    let ip = wanted.server.ip();
    if wanted.host.is_some() || wanted.family.takes(ip) {
        return Ok(());
    }
    if has_server {
        return Err(WordFault::Family(ip));
    }
    wanted.server.set_ip(Ipv6Addr::LOCALHOST.into());
    Ok(())
}

/// Parses the address of -b; without a port, it is any.
fn source(text: &str) -> Result<SocketAddr, WordFault> {
    let fault = || WordFault::Source(text.to_owned());
    let (ip, port) = text.split_once(['#', '@']).unwrap_or((text, "0"));
    Ok(SocketAddr::new(ip.parse().map_err(|_| fault())?, port.parse().map_err(|_| fault())?))
}

/// Parses the text after the `@` of `@SERVER`: an address or a name, with its port after `@` or `#`.
pub fn read_server(wanted: &mut Wanted, text: &str) -> Result<(), WordFault> {
    let (ip, port) = match text.split_once(['@', '#']) {
        Some((ip, port)) => (ip, Some(port.parse::<u16>().map_err(|_| WordFault::Port(port.to_owned()))?)),
        None => (text, None),
    };
    let bare = ip.strip_prefix('[').and_then(|s| s.strip_suffix(']')).unwrap_or(ip);
    let port = port.unwrap_or(53);
    wanted.has_server = true;
    match bare.parse() {
        Ok(ip) => (wanted.server, wanted.host) = (SocketAddr::new(ip, port), None),
        Err(_) if is_host(bare) => {
            wanted.server.set_port(port);
            wanted.host = Some(bare.to_owned());
        }
        Err(_) => return Err(WordFault::Server(ip.to_owned())),
    }
    Ok(())
}

/// Returns whether a text can be a host name; one of digits and dots only is a mistyped address.
fn is_host(text: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.chars().all(letters)
        && text.contains(|c: char| c.is_ascii_alphabetic())
        && NameBuf::from_text(text.as_bytes(), Some(Name::ROOT)).is_ok()
}

/// Returns the name under in-addr.arpa or ip6.arpa (RFC 1035 §3.5, RFC 3596 §2.5).
fn reverse(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa.")
        }
        IpAddr::V6(ip) => {
            let nibbles =
                ip.octets().iter().rev().map(|o| format!("{:x}.{:x}.", o & 15, o >> 4)).collect::<String>();
            format!("{nibbles}ip6.arpa.")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_wanted(line: &str) -> Result<Vec<Wanted>, WordFault> {
        let words = line.split_whitespace().map(str::to_owned).collect();
        read(&QueryArgs { words, ..QueryArgs::default() })
    }

    fn wanted(line: &str) -> Result<Wanted, WordFault> {
        all_wanted(line).map(only)
    }

    fn only(mut all: Vec<Wanted>) -> Wanted {
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    #[test]
    fn each_further_name_is_a_query_of_its_own() {
        let all = all_wanted("@192.0.2.1 +short a.example MX +tcp b.example c.example TXT @192.0.2.2")
            .expect("good");
        let asked =
            |w: &Wanted| (w.query.name.to_string(), w.query.qtype, w.tcp, w.form, w.server.ip().to_string());
        let short =
            |name: &str, qtype, tcp, ip: &str| (name.to_owned(), qtype, tcp, Form::Short, ip.to_owned());
        let expected = [
            short("a.example.", Type::MX, true, "192.0.2.1"),
            short("b.example.", Type::A, false, "192.0.2.1"),
            short("c.example.", Type::TXT, false, "192.0.2.2"),
        ];
        assert_eq!(all.iter().map(asked).collect::<Vec<_>>(), expected);
        // The type before the first name applies to all queries without their own.
        let types: Vec<Type> =
            all_wanted("MX a.example b.example").expect("good").iter().map(|w| w.query.qtype).collect();
        assert_eq!(types, [Type::MX, Type::MX]);
    }

    #[test]
    fn a_name_beyond_ascii_was_no_name() {
        assert_eq!(
            wanted("b\u{fc}cher.example").expect("good").query.name.to_string(),
            "xn--bcher-kva.example."
        );
    }

    #[test]
    fn any_order() {
        let a = wanted("@192.0.2.1 example.com MX +short +norec").expect("good");
        let b = wanted("MX +norec example.com +short @192.0.2.1@53").expect("good");
        assert_eq!(a, b);
        assert_eq!((a.query.qtype, a.form, a.query.recursion_desired), (Type::MX, Form::Short, false));
        assert_eq!(a.query.name.to_string(), "example.com.");
    }

    #[test]
    fn types_and_names_that_look_alike() {
        assert_eq!(wanted("mx").expect("a name").query.name.to_string(), "mx.");
        assert_eq!(wanted("mx mx").expect("both").query.name.to_string(), "mx.");
        assert_eq!(wanted("TYPE65280 example.com").expect("both").query.qtype, Type(65280));
        let chaos = wanted("CH TXT version.bind").expect("chaos");
        assert_eq!((chaos.query.qclass, chaos.query.qtype), (Class::CH, Type::TXT));
        assert_eq!(wanted("@::1").expect("root").query.qtype, Type::NS);
        assert_eq!(wanted("example.com ANY").expect("any").query.qtype, Type::ANY);
    }

    #[test]
    fn options_with_values() {
        let w =
            wanted("a. +bufsize=4096 +edns=1 +padding +subnet=192.0.2.0/24 +time=1 +tries=2").expect("good");
        assert_eq!((w.query.udp_size, w.query.edns, w.query.padding, w.tries), (4096, Some(1), Some(128), 2));
        assert_eq!(w.query.subnet, "192.0.2.0/24".parse().ok());
        assert_eq!(wanted("a. +noedns").expect("good").query.edns, None);
        for (line, sent) in [("a. +keepalive +tcp", true), ("a. +keepalive", false)] {
            assert_eq!(wanted(line).map(|w| w.query.keepalive), Ok(sent), "{line}");
        }
        assert_eq!(wanted("a. +nodnssec +nsid").map(|w| w.query.nsid), Ok(true));
    }

    #[test]
    fn a_fault_names_the_word() {
        let number = |name: &str, value: &str, max| {
            let (name, value) = (name.to_owned(), value.to_owned());
            WordFault::Number { name, value, min: 0, max }
        };
        for (line, fault) in [
            ("a. +shrot", WordFault::Option("shrot".into(), Some("short"))),
            ("a. +xyzzy", WordFault::Option("xyzzy".into(), None)),
            ("a. @192.0.2.256", WordFault::Server("192.0.2.256".into())),
            ("a. @ns1..example", WordFault::Server("ns1..example".into())),
            ("a. @::1@dns", WordFault::Port("dns".into())),
            ("a. +time", WordFault::NoValue("time".into())),
            ("a. +bufsize=x", number("bufsize", "x", 65_535)),
            ("a. +subnet=here", WordFault::Subnet("here".into())),
            ("a. +subnet=192.0.2.0/33", number("subnet", "33", 32)),
            ("a. IXFR", WordFault::Ixfr("IXFR".into())),
            ("a. ixfr=x", WordFault::Ixfr("ixfr=x".into())),
            ("a. MX TXT", WordFault::Types(Type::MX, Type::TXT)),
            ("a..b", WordFault::Name("a..b".into(), NameTextError::EmptyLabel)),
        ] {
            assert_eq!(wanted(line), Err(fault), "{line}");
        }
    }

    #[test]
    fn servers_have_names_and_ports() {
        for (line, host, port) in [
            ("a. @ns1.example", Some("ns1.example"), 53),
            ("a. @ns1.example#5353", Some("ns1.example"), 5353),
            ("a. @localhost@54", Some("localhost"), 54),
            ("a. @192.0.2.1#54", None, 54),
            ("a. @[2001:db8::1]#54", None, 54),
        ] {
            let wanted = wanted(line).expect("good");
            assert_eq!((wanted.host.as_deref(), wanted.server.port()), (host, port), "{line}");
        }
        let words = |line: &str| line.split(' ').map(str::to_owned).collect();
        let v6 =
            |line: &str| read(&QueryArgs { words: words(line), v6: true, ..QueryArgs::default() }).map(only);
        assert_eq!(v6("a.").map(|w| w.server.ip()), Ok(Ipv6Addr::LOCALHOST.into()));
        assert_eq!(v6("a. @192.0.2.1"), Err(WordFault::Family("192.0.2.1".parse().expect("ip"))));
    }

    #[test]
    fn type_and_class_have_options_of_their_own() {
        let args = QueryArgs { rtype: Some("mx".into()), class: Some("CH".into()), ..QueryArgs::default() };
        let read = |args| read(&QueryArgs { words: vec!["txt".into()], ..args }).map(only);
        let asked = read(args).expect("good").query;
        assert_eq!(
            (asked.name.to_string().as_str(), asked.qtype, asked.qclass),
            ("txt.", Type::MX, Class::CH)
        );
        let bad = QueryArgs { rtype: Some("x".into()), ..QueryArgs::default() };
        assert_eq!(read(bad), Err(WordFault::Type("x".into())));
    }

    #[test]
    fn parts_of_the_output_are_chosen() {
        let w = wanted("a. +noall +answer +timeout=2 +retry=0").expect("good");
        assert_eq!(w.parts, MessageParts { sections: [true, false, false], ..MessageParts::NONE });
        assert_eq!((w.time, w.tries), (Duration::from_secs(2), 1));
        assert_eq!(
            wanted("a. +nostats").expect("good").parts,
            MessageParts { stats: false, ..MessageParts::ALL }
        );
    }

    #[test]
    fn a_walk_asks_without_rd_and_a_chase_with_cd() {
        let w = wanted("a. +trace @192.0.2.1#54 +additional").expect("good");
        assert!(w.trace && w.has_server && !w.query.recursion_desired && w.query.dnssec_ok);
        assert_eq!((w.parts.sections, w.parts.comments, w.walk_port), ([true; 3], false, 53));
        let args =
            QueryArgs { words: vec!["a.".into()], chase: true, port: Some(54), ..QueryArgs::default() };
        let w = read(&args).map(only).expect("good");
        assert!(w.chase && !w.has_server && w.query.checking_disabled && w.query.dnssec_ok);
        assert_eq!(w.walk_port, 54);
        assert!(
            wanted("a. +chase +nodnssec").expect("good").query.dnssec_ok,
            "what is not signed is not secure"
        );
        assert_eq!(wanted("a. AXFR +trace"), Err(WordFault::Walked(Type::AXFR)));
        assert_eq!(wanted("a. CH +chase"), Err(WordFault::Chased(Class::CH)));
    }

    #[test]
    fn ixfr_comes_with_a_serial() {
        let w = wanted("example. ixfr=4294967295").expect("good");
        assert_eq!((w.query.qtype, w.query.has_version), (Type::IXFR, Some(Serial(u32::MAX))));
    }

    #[test]
    fn reverse_names() {
        assert_eq!(reverse("192.0.2.1".parse().expect("ip")), "1.2.0.192.in-addr.arpa.");
        assert!(reverse("2001:db8::1".parse().expect("ip")).starts_with("1.0.0.0."));
    }
}
