//! The `+OPTION` words of `nomen query`: those of dig, in full or by their first letters. An option of dig
//! that has no effect here is accepted; an option for a feature that does not exist here is refused with an
//! alternative.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use tls::client::KeyPin;
use wire::edns::OptionCode;
use wire::{Opcode, Prefix};

use super::words::{Form, Wanted, WordFault, name_of};
use message::print::MessageParts;
use message::{EdnsOption, Style};
use wording::did_you_mean;

/// The names of the options.
const OPTIONS: [&str; 72] = [
    "short",
    "dnssec",
    "do",
    "tcp",
    "vc",
    "rec",
    "recurse",
    "rdflag",
    "nsid",
    "json",
    "yaml",
    "cd",
    "cdflag",
    "ad",
    "adflag",
    "aaflag",
    "aaonly",
    "raflag",
    "tcflag",
    "zflag",
    "opcode",
    "qid",
    "header-only",
    "edns",
    "ednsflags",
    "ednsopt",
    "bufsize",
    "padding",
    "keepalive",
    "cookie",
    "expire",
    "zoneversion",
    "subnet",
    "ignore",
    "fail",
    "qr",
    "time",
    "timeout",
    "tries",
    "retry",
    "all",
    "cmd",
    "comments",
    "question",
    "answer",
    "authority",
    "additional",
    "stats",
    "identify",
    "multiline",
    "class",
    "ttlid",
    "ttlunits",
    "crypto",
    "split",
    "rrcomments",
    "unknownformat",
    "expandaaaa",
    "trace",
    "chase",
    "search",
    "domain",
    "ndots",
    "odoh",
    "odoh-path",
    "quic",
    "tls",
    "tls-ca",
    "tls-hostname",
    "tls-pin",
    "tls-certfile",
    "tls-keyfile",
];

/// Options of dig that have no effect here, on or off.
const WITHOUT_EFFECT: [&str; 9] =
    ["badcookie", "besteffort", "defname", "ednsnegotiation", "idn", "idnin", "idnout", "keepopen", "mapped"];

/// Options of dig that are accepted while off, with an alternative for each.
const OFF_ONLY: [(&str, &str); 11] = [
    ("showsearch", "use +search"),
    ("nssearch", "ask each server of the zone for its SOA, or use --trace"),
    ("onesoa", "leave out the last record of the transfer"),
    ("showbadcookie", "repeat the query with +cookie=DIGITS"),
    ("dns64prefix", "ask for the AAAA records of ipv4only.arpa"),
    ("sigchase", "use +chase"),
    ("topdown", "use +chase"),
    ("https", "queries go over UDP, TCP, TLS and QUIC only"),
    ("https-get", "queries go over UDP, TCP, TLS and QUIC only"),
    ("http-plain", "queries go over UDP, TCP, TLS and QUIC only"),
    ("http-plain-get", "queries go over UDP, TCP, TLS and QUIC only"),
];

/// EDNS options that `+ednsopt` accepts by name, as in dig.
const EDNS_NAMES: [(&str, OptionCode); 8] = [
    ("NSID", OptionCode::NSID),
    ("ECS", OptionCode::SUBNET),
    ("EXPIRE", OptionCode::EXPIRE),
    ("COOKIE", OptionCode::COOKIE),
    ("KEEPALIVE", OptionCode::KEEPALIVE),
    ("PADDING", OptionCode::PADDING),
    ("EDE", OptionCode::EXTENDED_ERROR),
    ("ZONEVERSION", OptionCode::ZONEVERSION),
];

/// Default length of the pieces of `+split`, as in dig.
const SPLIT: usize = 56;

/// Parses one option, without its `+`.
pub(super) fn read(wanted: &mut Wanted, text: &str) -> Result<(), WordFault> {
    let (word, value) = match text.split_once('=') {
        Some((word, value)) => (word, Some(value)),
        None => (text, None),
    };
    let (name, on) = match (resolve(word)?, word.strip_prefix("no")) {
        (Some(name), _) => (name, true),
        (None, Some(rest)) => match resolve(rest)? {
            Some(name) => (name, false),
            None => return Err(unknown(word)),
        },
        (None, None) => return Err(unknown(word)),
    };
    if let Some((_, instead)) = OFF_ONLY.iter().find(|(off, _)| *off == name) {
        return if on { Err(WordFault::Unsupported(name.to_owned(), instead)) } else { Ok(()) };
    }
    if WITHOUT_EFFECT.contains(&name) || shown(wanted, name, on, value)? || flag(wanted, name, on) {
        return Ok(());
    }
    edns(wanted, name, on, value)
}

/// Applies an option about the authentication of a server over TLS, which implies +tls.
fn secured(wanted: &mut Wanted, name: &str, on: bool, value: Option<&str>) -> Result<(), WordFault> {
    let tls = wanted.tls.get_or_insert_default();
    match name {
        "tls-ca" => (tls.by_name, tls.ca_file) = (on, value.filter(|_| on).map(Into::into)),
        "tls-hostname" if !on => tls.name = None,
        "tls-hostname" => {
            let text = need(name, value)?;
            tls.name = Some(text.parse().map_err(|_| WordFault::TlsName(text.to_owned()))?);
            // A name is of use only where it is verified.
            tls.by_name = true;
        }
        "tls-certfile" => tls.certificate = path(name, on, value)?,
        "tls-keyfile" => tls.key = path(name, on, value)?,
        _ if !on => tls.pins.clear(),
        _ => {
            let pin = need(name, value)?.parse::<KeyPin>();
            tls.pins.push(pin.map_err(|fault| WordFault::TlsPin(fault.to_string()))?);
        }
    }
    Ok(())
}

/// Returns the file that an option names; `None` if the option is off.
fn path(name: &str, on: bool, value: Option<&str>) -> Result<Option<PathBuf>, WordFault> {
    on.then(|| need(name, value).map(PathBuf::from)).transpose()
}

/// Parses an option about TLS, without its `+`, for a verb that takes no others.
///
/// # Errors
/// Another option, or a wrong value.
pub fn read_tls(wanted: &mut Wanted, text: &str) -> Result<(), WordFault> {
    let word = text.split('=').next().unwrap_or_default();
    let name = resolve(word.strip_prefix("no").unwrap_or(word))?;
    if name.is_none_or(|name| !name.starts_with("tls")) {
        let known = OPTIONS.iter().copied().filter(|name| name.starts_with("tls"));
        return Err(WordFault::Option(word.to_owned(), did_you_mean(word, known)));
    }
    read(wanted, text)
}

fn unknown(word: &str) -> WordFault {
    WordFault::Option(word.to_owned(), did_you_mean(word, OPTIONS.iter().copied()))
}

/// Returns the option that a word names, in full or by its first letters.
fn resolve(word: &str) -> Result<Option<&'static str>, WordFault> {
    let off = OFF_ONLY.iter().map(|(name, _)| *name);
    let all = || OPTIONS.iter().copied().chain(WITHOUT_EFFECT).chain(off.clone());
    if let Some(name) = all().find(|name| *name == word) {
        return Ok(Some(name));
    }
    let found: Vec<&'static str> = all().filter(|name| !word.is_empty() && name.starts_with(word)).collect();
    match found[..] {
        [] => Ok(None),
        [name] => Ok(Some(name)),
        _ => Err(WordFault::Ambiguous(word.to_owned(), found)),
    }
}

/// Applies an option about the output. Returns whether it is one.
fn shown(wanted: &mut Wanted, name: &str, on: bool, value: Option<&str>) -> Result<bool, WordFault> {
    let form = |form| if on { form } else { Form::Full };
    let MessageParts { style, .. } = &mut wanted.parts;
    match name {
        "short" => wanted.form = form(Form::Short),
        "json" => wanted.form = form(Form::Json),
        "yaml" => wanted.form = form(Form::Yaml),
        "all" => {
            let parts = if on { MessageParts::ALL } else { MessageParts::NONE };
            wanted.parts = MessageParts { style: *style, ..parts };
        }
        "cmd" => wanted.show_command = on,
        "comments" => wanted.parts.comments = on,
        "question" => wanted.parts.question = on,
        "answer" => wanted.parts.sections[0] = on,
        "authority" => wanted.parts.sections[1] = on,
        "additional" => wanted.parts.sections[2] = on,
        "stats" => wanted.parts.stats = on,
        "identify" => wanted.identify = on,
        "qr" => wanted.show_query = on,
        "multiline" => style.multiline = on,
        "class" => style.class = on,
        "ttlid" => style.ttl = on,
        "ttlunits" => (style.ttl_units, style.ttl) = (on, on || style.ttl),
        "crypto" => style.crypto = on,
        "rrcomments" => style.comments = Some(on),
        "unknownformat" => style.generic = on,
        "expandaaaa" => style.full_addresses = on,
        "split" => style.split = if on { split(value)? } else { None },
        _ => return Ok(false),
    }
    Ok(true)
}

/// Applies an option that is a flag of the query or of its transport. Returns whether it is one.
fn flag(wanted: &mut Wanted, name: &str, on: bool) -> bool {
    let query = &mut wanted.query;
    match name {
        "dnssec" | "do" => query.dnssec_ok = on,
        "tcp" | "vc" => wanted.tcp = on,
        "rec" | "recurse" | "rdflag" => query.recursion_desired = on,
        "cd" | "cdflag" => query.checking_disabled = on,
        "ad" | "adflag" => query.authentic_data = on,
        "aaflag" | "aaonly" => query.flags.authoritative = on,
        "raflag" => query.flags.recursion_available = on,
        "tcflag" => query.flags.truncated = on,
        "zflag" => query.flags.reserved = on,
        "header-only" => query.header_only = on,
        "nsid" => query.nsid = on,
        "expire" => query.expire = on,
        "zoneversion" => query.zone_version = on,
        "keepalive" => query.keepalive = on,
        "ignore" => wanted.keep_truncated = on,
        // As in dig: +fail stops at the first server that answers.
        "fail" => wanted.past_failure = !on,
        "search" => wanted.search = on,
        "trace" => trace(wanted, on),
        "chase" => chase(wanted, on),
        "tls" | "quic" if on => {
            wanted.tls.get_or_insert_default();
            wanted.quic = name == "quic";
        }
        "tls" | "quic" => (wanted.tls, wanted.quic) = (None, false),
        _ => return false,
    }
    true
}

/// Applies an option with a value, about the query or its tries.
fn edns(wanted: &mut Wanted, name: &str, on: bool, value: Option<&str>) -> Result<(), WordFault> {
    let query = &mut wanted.query;
    match name {
        "edns" if !on => query.edns = None,
        "edns" => query.edns = Some(value.map_or(Ok(0), |v| number(name, v, 0, 255))? as u8),
        "ednsflags" if !on => query.edns_flags = 0,
        "ednsflags" => query.edns_flags = value.map_or(Ok(0), |v| number(name, v, 0, 0xffff))? as u16,
        "ednsopt" if !on => query.options.clear(),
        "ednsopt" => query.options.push(edns_option(need(name, value)?)?),
        "bufsize" if !on => query.udp_size = 1232,
        "bufsize" => query.udp_size = value.map_or(Ok(1232), |v| number(name, v, 0, 65535))? as u16,
        "padding" if !on => query.padding = None,
        "padding" => query.padding = Some(value.map_or(Ok(128), |v| number(name, v, 1, 1024))? as u16),
        "cookie" => {
            query.cookie = on;
            query.cookie_bytes = value.filter(|_| on).map(cookie).transpose()?;
        }
        "subnet" if !on => query.subnet = None,
        "subnet" => query.subnet = Some(subnet(need(name, value)?)?),
        "qid" => {
            query.id =
                value.filter(|_| on).map(|v| number(name, v, 0, 65535)).transpose()?.map(|id| id as u16)
        }
        "opcode" if !on => query.opcode = Opcode::QUERY,
        "opcode" => query.opcode = opcode(need(name, value)?)?,
        "tls-ca" | "tls-hostname" | "tls-pin" | "tls-certfile" | "tls-keyfile" => {
            secured(wanted, name, on, value)?
        }
        "odoh" if !on => wanted.oblivious = None,
        "odoh" => wanted.oblivious.get_or_insert_default().proxy = value.map(str::to_owned),
        "odoh-path" if !on => wanted.oblivious.get_or_insert_default().path = None,
        "odoh-path" => {
            let text = need(name, value)?;
            if !text.starts_with('/') {
                return Err(WordFault::HttpPath(text.to_owned()));
            }
            wanted.oblivious.get_or_insert_default().path = Some(text.to_owned());
        }
        "domain" if !on => wanted.domain = None,
        "domain" => (wanted.domain, wanted.search) = (Some(name_of(need(name, value)?)?), true),
        "ndots" if !on => wanted.ndots = None,
        "ndots" => wanted.ndots = Some(number(name, need(name, value)?, 0, 127)? as usize),
        // As dig counts: tries after the first.
        "retry" => wanted.tries = number(name, need(name, value)?, 0, 99)? as u32 + 1,
        "tries" => wanted.tries = number(name, need(name, value)?, 1, 100)? as u32,
        "time" | "timeout" => wanted.time = Duration::from_secs(number(name, need(name, value)?, 1, 600)?),
        other => return Err(unknown(other)),
    }
    Ok(())
}

/// Applies --trace: queries have no RD, and of each reply the records are shown, as in dig.
pub(super) fn trace(wanted: &mut Wanted, on: bool) {
    wanted.trace = on;
    if on {
        wanted.query.recursion_desired = false;
        wanted.query.dnssec_ok = true;
        let style = wanted.parts.style;
        wanted.parts =
            MessageParts { sections: [true, true, false], stats: true, style, ..MessageParts::NONE };
    }
}

/// Applies --chase: CD makes a resolver return answers that it finds bogus.
pub(super) fn chase(wanted: &mut Wanted, on: bool) {
    wanted.chase = on;
    wanted.query.checking_disabled = on;
}

fn need<'v>(name: &str, value: Option<&'v str>) -> Result<&'v str, WordFault> {
    value.ok_or_else(|| WordFault::NoValue(name.to_owned()))
}

/// Parses a decimal number, or a hexadecimal one after `0x`.
fn number(name: &str, value: &str, min: u64, max: u64) -> Result<u64, WordFault> {
    let read = match value.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => value.parse(),
    };
    match read {
        Ok(n) if (min..=max).contains(&n) => Ok(n),
        _ => Err(WordFault::Number { name: name.to_owned(), value: value.to_owned(), min, max }),
    }
}

/// Returns the length of the pieces, a multiple of four characters, at which base 64 has whole bytes; 0 cuts
/// nothing.
fn split(value: Option<&str>) -> Result<Option<usize>, WordFault> {
    let width = value.map_or(Ok(SPLIT as u64), |v| number("split", v, 0, 1024))? as usize;
    Ok(Some(width.next_multiple_of(4)).filter(|width| *width > 0))
}

fn opcode(text: &str) -> Result<Opcode, WordFault> {
    let known = (0..16).map(Opcode).find(|known| known.to_string().eq_ignore_ascii_case(text));
    let number = || text.parse().ok().filter(|n| *n < 16).map(Opcode);
    known.or_else(number).ok_or_else(|| WordFault::Opcode(text.to_owned()))
}

/// Parses `CODE` or `CODE:HEX`; the code is a number or a name.
fn edns_option(text: &str) -> Result<EdnsOption, WordFault> {
    let fault = || WordFault::EdnsOption(text.to_owned());
    let (code, data) = text.split_once(':').unwrap_or((text, ""));
    let named = EDNS_NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(code)).map(|(_, code)| *code);
    let code = named.or_else(|| code.parse().ok().map(OptionCode)).ok_or_else(fault)?;
    Ok(EdnsOption { code, data: unhex(data).ok_or_else(fault)? })
}

fn cookie(text: &str) -> Result<Vec<u8>, WordFault> {
    let bytes = unhex(text).filter(|bytes| matches!(bytes.len(), 8 | 16..=40));
    bytes.ok_or_else(|| WordFault::Cookie(text.to_owned()))
}

/// Returns the bytes of hexadecimal digits.
fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// Parses an address and its prefix length; `0` means no address (RFC 7871 §7.1.2).
fn subnet(text: &str) -> Result<Prefix, WordFault> {
    let (ip, length) = text.split_once('/').map_or((text, None), |(ip, l)| (ip, Some(l)));
    let (ip, length) = if ip == "0" { ("0.0.0.0", length.or(Some("0"))) } else { (ip, length) };
    let ip: IpAddr = ip.parse().map_err(|_| WordFault::Subnet(text.to_owned()))?;
    let most = if ip.is_ipv4() { 32 } else { 128 };
    let length = length.map_or(Ok(most), |l| number("subnet", l, 0, most))?;
    Prefix::of(ip, length as u8).ok_or_else(|| WordFault::Subnet(text.to_owned()))
}

impl Wanted {
    /// Returns the format of records.
    pub fn style(&self) -> &Style {
        &self.parts.style
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(words: &str) -> Result<Wanted, WordFault> {
        let mut wanted = Wanted::default();
        words.split_whitespace().try_for_each(|word| read(&mut wanted, word)).map(|()| wanted)
    }

    #[test]
    fn first_letters_are_enough_where_one_option_has_them() {
        let wanted = with("nocomm multi stat noques").expect("good");
        assert!(wanted.style().multiline && !wanted.parts.comments && !wanted.parts.question);
        assert!(!with("norec").expect("good").query.recursion_desired, "a word in full comes first");
        assert_eq!(with("ttl"), Err(WordFault::Ambiguous("ttl".into(), vec!["ttlid", "ttlunits"])));
        assert_eq!(with("noxyzzy"), Err(WordFault::Option("noxyzzy".into(), None)));
        assert_eq!(read(&mut Wanted::default(), ""), Err(WordFault::Option(String::new(), None)));
    }

    #[test]
    fn what_does_not_exist_is_taken_while_it_is_off() {
        assert_eq!(with("nosearch notls nosigchase nonssearch noidnout besteffort"), Ok(Wanted::default()));
        for word in ["showsearch", "https", "sigchase"] {
            let name = word.split('=').next().unwrap_or(word);
            assert!(matches!(with(word), Err(WordFault::Unsupported(at, _)) if at == name), "{word}");
        }
    }

    #[test]
    fn the_short_form_stays_behind_noall() {
        let wanted = with("short noall answer").expect("good");
        assert_eq!((wanted.form, wanted.parts.sections), (Form::Short, [true, false, false]));
    }

    #[test]
    fn the_query_is_as_options_want_it() {
        let wanted =
            with("qid=0x1234 opcode=notify header-only aaonly zflag ednsflags=0x4000").expect("good");
        let message = wanted.query.message().expect("fits");
        assert_eq!(message[..6], [0x12, 0x34, 0x25, 0x40, 0, 0], "{message:02x?}");
        // The OPT record alone: root, type, size, extended code, version, flags, no data.
        assert_eq!(message[12..], [0, 0, 41, 4, 208, 0, 0, 0x40, 0, 0, 0]);
        let wanted = with("ednsopt=65001:c0ffee ednsopt=NSID cookie=0011223344556677").expect("good");
        let message = wanted.query.message().expect("fits");
        let options = [0, 10, 0, 8, 0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77];
        let further = [0xfd, 0xe9, 0, 3, 0xc0, 0xff, 0xee, 0, 3, 0, 0];
        assert!(message.ends_with(&[&options[..], &further[..]].concat()), "{message:02x?}");
        assert_eq!(with("ednsopt=NSID noednsopt").expect("good").query.options, []);
    }

    #[test]
    fn bad_values_are_named() {
        assert_eq!(with("opcode=16"), Err(WordFault::Opcode("16".into())));
        assert_eq!(with("ednsopt=1:abc"), Err(WordFault::EdnsOption("1:abc".into())));
        assert_eq!(with("cookie=00"), Err(WordFault::Cookie("00".into())));
        assert!(matches!(with("qid=65536"), Err(WordFault::Number { max: 65_535, .. })));
        assert_eq!(with("split=10").map(|w| w.style().split), Ok(Some(12)));
        assert_eq!(with("split=0").map(|w| w.style().split), Ok(None));
    }
}
