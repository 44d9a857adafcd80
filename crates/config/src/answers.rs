//! Keys of `[server]` about answers and the server's identity.

use std::fmt;

use cookies::{CookieSecret, MAX_SECRETS};
use query_path::prefix::PrefixMasks;
use toml::Spanned;
use toml::de::DeValue;
use wire::{NameBuf, Prefix};

use super::report::Diagnostic;
use super::table::keys;
use super::table::read::{At, Reader};
use super::table::value::{Int, Value, quote};
use super::zone_name::{ZoneNameFault, zone_name};
use crate::machine::host_name;

keys! {
    /// Keys about answers and the server's identity.
    pub struct Answers {
        /// Name server identifier sent to clients that ask for it (RFC 5001). Unset: none is sent.
        live "nsid" nsid: Option<Nsid> = None, example "ams1";
        /// Answer to `id.server CH TXT` and `hostname.bind CH TXT`: "hide" refuses the query, "auto" is the
        /// host's name.
        live "id" id: ChaosText = ChaosText::Hide, example "ams1";
        /// Answer to `version.server CH TXT` and `version.bind CH TXT`: "hide" refuses the query, "auto" is
        /// the program and its version.
        live "version" version: ChaosText = ChaosText::Auto, example "hide";
        /// Largest UDP answer in bytes, and the size announced to clients (RFC 6891 §6.2.5). Larger answers
        /// are truncated, and clients ask again over TCP; values above 1232 risk IP fragments, which some
        /// networks drop.
        live "max-udp-size" max_udp_size: Int<u16, 512, 4096> = Int(1232), example 1232;
        /// Change the order of a name's addresses (A and AAAA) for each query, from zones and from the cache,
        /// so that clients that use the first one are spread over all. Off: always the order of the zone or
        /// of the other server's answer. Records of other types keep their order: clients choose among MX,
        /// SRV, SVCB and HTTPS by preference and at random (RFC 2782), among NS by response time, and names
        /// in their data are compressed against records before them.
        live "rotate-addresses" rotate_addresses: bool = true, example false;
        /// Answer DNS cookies (RFC 7873, RFC 9018). A client that sends the server cookie of an earlier
        /// answer shows that it receives what is sent to its address.
        live "cookies" cookies: bool = true, example true;
        /// Secrets of server cookies, each 128 bits in hexadecimal digits, as BIND, Knot DNS, NSD and Unbound
        /// have them; servers on one address need the same. The first makes cookies; cookies of all are
        /// accepted, of three at most. To replace one on several servers, add the new one behind the old one
        /// everywhere, then put it first everywhere, and an hour later remove the old one (RFC 9018 §5). Keep
        /// them in an included file that only nomen can read. Unset: a random one, which
        /// `nomen ctl cookies rotate` replaces.
        live "cookie-secrets" cookie_secrets: Option<Vec<At<CookieSecret>>> = None,
            example ["e5e973e5a6b2a43f48e7dc849e37bfcf"];
        /// Networks whose clients need a valid cookie for queries over UDP. A query with a client cookie but
        /// no valid server cookie is answered with BADCOOKIE and the server cookie to ask again with; one
        /// without a cookie with a truncated answer without records, so that the client asks over TCP.
        /// Queries with a valid TSIG need none. Unset: none.
        live "cookies-required-from" cookies_required_from: Option<Vec<At<Prefix>>> = None,
            example ["0.0.0.0/0", "::/0"];
        /// Most CNAME and DNAME records followed for one answer.
        live "max-chain" max_chain: Int<u8, 1, 64> = Int(16), example 12;
        /// Most SHA-1 blocks per second that a worker hashes for zones with more than 100 NSEC3 iterations
        /// (RFC 9276), or with fewer and a long salt that costs as much: an iteration takes one block, with a
        /// salt of more than 35 bytes up to five. Denials beyond that are answered with SERVFAIL and extended
        /// error 27, so that one such zone does not slow down the others. A block takes about 0.1 µs: the
        /// default is about a fifth of a CPU.
        live "nsec3-rounds" nsec3_rounds: Int<u32, 10_000, 1_000_000_000> = Int(2_000_000),
            example 10_000_000;
        /// Agent domain to which resolvers may report names of these zones that they cannot resolve or
        /// validate (RFC 9567). It is sent in every answer from a zone, if the query has EDNS and there is
        /// room, except from the zone that contains the domain itself: reports about that zone would fail
        /// with it. Unset: none is sent.
        live "report-channel" report_channel: Option<AgentDomain> = None, example "reports.example.net";
    }
}

impl Answers {
    /// Returns the engine's settings that these keys determine.
    pub fn config(&self) -> query_path::EngineConfig {
        let mut config = query_path::EngineConfig {
            max_udp_size: self.max_udp_size.0,
            rotate_addresses: *self.rotate_addresses,
            nsid: self.nsid.value.as_ref().map(|n| n.0.as_slice().into()).unwrap_or_default(),
            cookies_required_from: self.cookies_required_from.value.as_ref().map(|_| self.cookie_networks()),
            report_channel: self.report_channel.value.as_ref().map(|agent| agent.0),
            ..query_path::EngineConfig::default()
        };
        config.identity.version = self.version.of_program();
        config.identity.id = self.id.of_host();
        config
    }

    /// Returns the secrets of server cookies, none if they are random; `None` if cookies are off.
    pub fn cookie_secrets(&self) -> Option<Vec<CookieSecret>> {
        self.cookies.then(|| members(&self.cookie_secrets.value))
    }

    /// Returns the networks whose clients need a cookie.
    fn cookie_networks(&self) -> PrefixMasks {
        let networks = members(&self.cookies_required_from.value).into_iter();
        let networks: Vec<Prefix> = networks.map(Prefix::to_canonical).collect();
        PrefixMasks::new(networks.iter().map(|network| (0, network)))
    }

    pub(super) fn check(&self, faults: &mut Vec<Diagnostic>) {
        let secrets = self.cookie_secrets.value.as_deref().unwrap_or_default();
        if let Some(more) = secrets.get(MAX_SECRETS) {
            let text = format!("there are more than {MAX_SECRETS} cookie secrets");
            faults.push(Diagnostic::at(more.place.as_ref(), text));
        }
        if let (false, Some(first)) =
            (*self.cookies, self.cookies_required_from.value.as_deref().and_then(<[_]>::first))
        {
            let text = "clients need a cookie, but `cookies` is false".to_owned();
            faults.push(Diagnostic::at(first.place.as_ref(), text));
        }
    }
}

/// Returns the members of a list.
fn members<T: Copy>(list: &Option<Vec<At<T>>>) -> Vec<T> {
    list.iter().flatten().map(|member| **member).collect()
}

impl Value for CookieSecret {
    fn kind() -> String {
        "32 hexadecimal digits".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "a cookie secret in quotes", str::parse)
    }
    fn render(&self) -> Option<String> {
        Some(quote("hidden"))
    }
}

/// The server's identity in answers of class CHAOS and in dnstap frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChaosText {
    /// The built-in text: program and version, or the host's name.
    Auto,
    /// No text: queries for it are refused.
    Hide,
    /// This text.
    Text(String),
}

/// What is wrong with a [`ChaosText`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChaosTextLength;

impl fmt::Display for ChaosTextLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1 to {} bytes fit in an answer", ChaosText::MAX_LEN)
    }
}

impl ChaosText {
    /// Longest text, in bytes: that of one character string (RFC 1035 §3.3).
    pub const MAX_LEN: usize = 255;

    /// Parses "auto", "hide" or any other text.
    pub fn parse(text: &str) -> Result<Self, ChaosTextLength> {
        match text {
            "auto" => Ok(Self::Auto),
            "hide" => Ok(Self::Hide),
            t if t.is_empty() || t.len() > Self::MAX_LEN => Err(ChaosTextLength),
            t => Ok(Self::Text(t.to_owned())),
        }
    }

    /// Returns the text, with the host's name for "auto"; `None` for "hide".
    pub fn of_host(&self) -> Option<Box<[u8]>> {
        self.text(|| host_name(Self::MAX_LEN))
    }

    /// Returns the text, with program and version for "auto"; `None` for "hide".
    pub fn of_program(&self) -> Option<Box<[u8]>> {
        self.text(|| format!("nomen {}", env!("CARGO_PKG_VERSION")))
    }

    fn text(&self, auto: impl FnOnce() -> String) -> Option<Box<[u8]>> {
        match self {
            Self::Hide => None,
            Self::Auto => Some(auto().into_bytes().into()),
            Self::Text(text) => Some(text.as_bytes().into()),
        }
    }
}

impl Value for ChaosText {
    fn kind() -> String {
        "\"auto\", \"hide\" or text".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "a string", Self::parse)
    }
    fn render(&self) -> Option<String> {
        Some(quote(match self {
            Self::Auto => "auto",
            Self::Hide => "hide",
            Self::Text(text) => text,
        }))
    }
}

/// The name server identifier of RFC 5001: text as it is, or bytes written `0x…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nsid(pub Vec<u8>);

/// What is wrong with the text of an [`Nsid`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NsidFault {
    /// There are no hexadecimal digits after `0x`, or an odd number of them.
    Hex,
    /// It has no bytes.
    Empty,
    /// It has this many bytes.
    TooLong(usize),
}

impl fmt::Display for NsidFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hex => f.write_str("after `0x` an even number of hexadecimal digits is expected"),
            Self::Empty => f.write_str("the identifier is empty; remove the key"),
            Self::TooLong(length) => write!(f, "{length} bytes are too many (at most {})", Nsid::MAX_LEN),
        }
    }
}

impl Nsid {
    /// Longest identifier, in bytes: it is part of every answer to a query that asks for it.
    pub const MAX_LEN: usize = 128;

    /// Parses text, or hexadecimal digits after `0x`.
    pub fn parse(text: &str) -> Result<Self, NsidFault> {
        let bytes = match text.strip_prefix("0x") {
            None => text.as_bytes().to_vec(),
            Some(hex) => {
                let digits: Option<Vec<u8>> =
                    hex.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
                match digits {
                    Some(d) if d.len() % 2 == 0 => d.chunks(2).map(|p| p[0] << 4 | p[1]).collect(),
                    _ => return Err(NsidFault::Hex),
                }
            }
        };
        match bytes.len() {
            0 => Err(NsidFault::Empty),
            n if n > Self::MAX_LEN => Err(NsidFault::TooLong(n)),
            _ => Ok(Self(bytes)),
        }
    }
}

impl Value for Nsid {
    fn kind() -> String {
        "text, or bytes as \"0x…\"".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "a string", Self::parse)
    }
    fn render(&self) -> Option<String> {
        let hex: String = self.0.iter().map(|b| format!("{b:02x}")).collect();
        Some(quote(&format!("0x{hex}")))
    }
}

/// An agent domain (RFC 9567 §3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentDomain(pub NameBuf);

/// What is wrong with the text of an [`AgentDomain`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentFault {
    /// It is not a name.
    Name(ZoneNameFault),
    /// It is the root, which is not allowed as agent domain.
    Root,
    /// It has this many bytes, which leaves no room for a report.
    TooLong(usize),
}

impl fmt::Display for AgentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(fault) => fault.fmt(f),
            Self::Root => f.write_str("the root cannot be an agent domain (RFC 9567); remove the key"),
            Self::TooLong(length) => write!(
                f,
                "a name of {length} bytes leaves no room for reports, which are names below it (at most {})",
                AgentDomain::MAX_LEN
            ),
        }
    }
}

impl AgentDomain {
    /// Longest agent domain, in bytes: half of the name of a report, which also holds the reported name.
    pub const MAX_LEN: usize = 128;

    /// Parses a name.
    ///
    /// # Errors
    /// [`AgentFault`].
    pub fn parse(text: &str) -> Result<Self, AgentFault> {
        let name = zone_name(text).map_err(AgentFault::Name)?;
        match name.as_name().len() {
            1 => Err(AgentFault::Root),
            length if length > Self::MAX_LEN => Err(AgentFault::TooLong(length)),
            _ => Ok(Self(name)),
        }
    }
}

impl Value for AgentDomain {
    fn kind() -> String {
        "domain name".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "a domain name in quotes", Self::parse)
    }
    fn render(&self) -> Option<String> {
        Some(quote(&self.0.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nsid_is_text_or_hex() {
        assert_eq!(Nsid::parse("ams1"), Ok(Nsid(b"ams1".to_vec())));
        assert_eq!(Nsid::parse("0xC0ffee"), Ok(Nsid(vec![0xc0, 0xff, 0xee])));
        assert_eq!(Nsid::parse("0xabc"), Err(NsidFault::Hex));
        assert_eq!(Nsid::parse("0xag"), Err(NsidFault::Hex));
        assert_eq!(Nsid::parse(""), Err(NsidFault::Empty));
        assert_eq!(Nsid::parse("0x"), Err(NsidFault::Empty));
        assert_eq!(Nsid::parse(&"x".repeat(129)), Err(NsidFault::TooLong(129)));
    }

    #[test]
    fn chaos_texts_fit_in_a_character_string() {
        assert_eq!(ChaosText::parse(&"x".repeat(255)), Ok(ChaosText::Text("x".repeat(255))));
        assert_eq!(ChaosText::parse(&"x".repeat(256)), Err(ChaosTextLength));
        assert_eq!(ChaosText::parse(""), Err(ChaosTextLength));
    }

    #[test]
    fn an_agent_domain_leaves_room_for_reports() {
        let read = |text: &str| AgentDomain::parse(text).map(|agent| agent.0.to_string());
        assert_eq!(read("Reports.example.NET"), Ok("reports.example.net.".into()));
        assert_eq!(read("."), Err(AgentFault::Root));
        assert_eq!(read(""), Err(AgentFault::Name(ZoneNameFault::Empty)));
        let label = "x".repeat(42);
        assert!(read(&format!("{label}.{label}.{}", "x".repeat(40))).is_ok());
        assert_eq!(read(&format!("{label}.{label}.{}", "x".repeat(41))), Err(AgentFault::TooLong(129)));
    }

    proptest! {
        #[test]
        fn any_text_is_an_identifier_or_an_error(text in "\\PC{0,20}") {
            let _ = Nsid::parse(&text);
        }
    }
}
