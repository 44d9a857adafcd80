//! Rules in adblock syntax: exception mark, pattern, modifiers.
//!
//! AdGuard's documentation of DNS filtering has the syntax; docs/BLOCKING.md has what of it is supported.

use std::fmt;

use wire::{Name, NameBuf, Prefix, PrefixFault, Type};

use crate::conditions::{Choice, ClientValue, Condition};
use crate::rewrites::{self, RewriteFault, RewriteText};

/// Why a modifier cannot be used. A rule with such a modifier is not used at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModifierFault {
    /// There is no such modifier.
    Unknown(String),
    /// It needs a value, or has one that it does not need.
    Form(String),
    /// Not a record type.
    Type(String),
    /// Not the name of a domain.
    Domain(String),
    /// Not a network of clients.
    Client(String, PrefixFault),
    /// Not the name or the tag of a group.
    Word(&'static str, String),
    /// A value of `$dnsrewrite`.
    Rewrite(RewriteFault),
}

impl fmt::Display for ModifierFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(text) => write!(f, "unknown modifier {text:?}"),
            Self::Form(name) => write!(f, "the modifier ${name} has no value, or one that it cannot have"),
            Self::Type(text) => write!(f, "$dnstype: {text:?} is not a record type"),
            Self::Domain(text) => write!(f, "$denyallow: {text:?} is not a domain name"),
            Self::Client(text, fault) => write!(f, "$client: {text:?}: {fault}"),
            Self::Word(name, text) => write!(f, "${name}: {text:?} is not a name"),
            Self::Rewrite(fault) => fault.fmt(f),
        }
    }
}
impl std::error::Error for ModifierFault {}

/// Modifiers with a meaning only for requests and pages of browsers. Their rules are not for the DNS.
const OF_BROWSERS: [&[u8]; 72] = [
    b"1p",
    b"3p",
    b"_",
    b"all",
    b"app",
    b"background",
    b"content",
    b"cookie",
    b"csp",
    b"css",
    b"cname",
    b"doc",
    b"document",
    b"domain",
    b"ehide",
    b"elemhide",
    b"empty",
    b"extension",
    b"first-party",
    b"font",
    b"frame",
    b"from",
    b"genericblock",
    b"generichide",
    b"ghide",
    b"header",
    b"hls",
    b"image",
    b"inline-font",
    b"inline-script",
    b"ipaddress",
    b"jsinject",
    b"jsonprune",
    b"match-case",
    b"media",
    b"method",
    b"mp4",
    b"network",
    b"noop",
    b"object",
    b"object-subrequest",
    b"other",
    b"permissions",
    b"ping",
    b"popunder",
    b"popup",
    b"reason",
    b"redirect",
    b"redirect-rule",
    b"referrerpolicy",
    b"removeheader",
    b"removeparam",
    b"replace",
    b"rewrite",
    b"script",
    b"shide",
    b"sitekey",
    b"specifichide",
    b"stealth",
    b"strict1p",
    b"strict3p",
    b"stylesheet",
    b"subdocument",
    b"third-party",
    b"to",
    b"uritransform",
    b"urlblock",
    b"urlskip",
    b"webrtc",
    b"websocket",
    b"xhr",
    b"xmlhttprequest",
];

/// A rule, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Adblock<'t> {
    /// `@@`.
    pub(crate) exempts: bool,
    pub(crate) mask: MaskText<'t>,
    pub(crate) modifiers: Modifiers,
}

/// The pattern of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MaskText<'t> {
    /// What is between the slashes.
    Regex(&'t [u8]),
    /// A name or a pattern with wildcards.
    Mask(&'t [u8]),
}

/// What modifiers say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Modifiers {
    pub(crate) important: bool,
    pub(crate) badfilter: bool,
    pub(crate) rewrite: Option<RewriteText>,
    /// In its normal form.
    pub(crate) condition: Condition,
}

impl Modifiers {
    /// Whether none but `$badfilter` is given.
    pub(crate) fn are_none(&self) -> bool {
        !self.important && self.rewrite.is_none() && self.condition == Condition::default()
    }
}

/// Takes a rule apart. Returns `None` if it is for browsers.
///
/// # Errors
/// A modifier cannot be used.
pub(crate) fn read(text: &[u8]) -> Result<Option<Adblock<'_>>, ModifierFault> {
    let (rule, exempts) = match text {
        [b'@', b'@', rule @ ..] => (rule, true),
        rule => (rule, false),
    };
    let (mask, text) = match regex(rule) {
        Some((regex, modifiers)) => (MaskText::Regex(regex), modifiers),
        None => match rule.iter().position(|byte| *byte == b'$') {
            Some(at) => (MaskText::Mask(&rule[..at]), &rule[at + 1..]),
            None => (MaskText::Mask(rule), &rule[rule.len()..]),
        },
    };
    let Some(modifiers) = modifiers(text)? else { return Ok(None) };
    match &modifiers.rewrite {
        Some(_) if modifiers.badfilter => Err(ModifierFault::Rewrite(RewriteFault::Badfilter)),
        Some(RewriteText::All) if !exempts => Err(ModifierFault::Rewrite(RewriteFault::NoValue)),
        _ => Ok(Some(Adblock { exempts, mask, modifiers })),
    }
}

/// Splits a rule with a regular expression: what is between the slashes, and the modifiers.
fn regex(rule: &[u8]) -> Option<(&[u8], &[u8])> {
    let [b'/', body @ ..] = rule else { return None };
    let mut escaped = false;
    let end = body.iter().position(|byte| {
        let is_end = *byte == b'/' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        is_end
    })?;
    match (&body[..end], &body[end + 1..]) {
        ([], _) => None,
        (regex, []) => Some((regex, &[])),
        (regex, [b'$', modifiers @ ..]) => Some((regex, modifiers)),
        // The address of a page.
        _ => None,
    }
}

/// Reads modifiers. Returns `None` if one of them is for browsers.
fn modifiers(text: &[u8]) -> Result<Option<Modifiers>, ModifierFault> {
    let (mut modifiers, mut condition) = (Modifiers::default(), Condition::default());
    for modifier in unescaped(text, b',').filter(|modifier| !modifier.is_empty()) {
        let (name, value) = match modifier.iter().position(|byte| *byte == b'=') {
            Some(at) => (&modifier[..at], Some(&modifier[at + 1..])),
            None => (modifier, None),
        };
        match (name, value) {
            (b"important", None) => modifiers.important = true,
            (b"badfilter", None) => modifiers.badfilter = true,
            (b"dnstype", Some(value)) => choice(value, &mut condition.types, rtype)?,
            (b"client", Some(value)) => choice(value, &mut condition.clients, client)?,
            (b"denyallow", Some(value)) => {
                for name in unescaped(value, b'|') {
                    condition.left_out.push(domain(name)?);
                }
            }
            (b"ctag", Some(value)) => choice(value, &mut condition.tags, |text| word("ctag", text))?,
            (b"dnsrewrite", value) if modifiers.rewrite.is_none() => {
                let value = value.map(without_escapes);
                let rewrite = rewrites::read(value.as_deref()).map_err(ModifierFault::Rewrite)?;
                modifiers.rewrite = Some(rewrite);
            }
            (
                b"important" | b"badfilter" | b"dnstype" | b"client" | b"denyallow" | b"ctag" | b"dnsrewrite",
                _,
            ) => {
                return Err(ModifierFault::Form(shown(name)));
            }
            _ if OF_BROWSERS.contains(&name.strip_prefix(b"~").unwrap_or(name)) => return Ok(None),
            _ => return Err(ModifierFault::Unknown(shown(modifier))),
        }
    }
    Ok(Some(Modifiers { condition: condition.normal(), ..modifiers }))
}

/// Splits a text at a separator without a backslash before it.
fn unescaped(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut escaped = false;
    text.split(move |byte| {
        let splits = *byte == separator && !escaped;
        escaped = *byte == b'\\' && !escaped;
        splits
    })
}

/// Reads the values of a modifier, which may have a `~` before them.
fn choice<T>(
    text: &[u8],
    to: &mut Choice<T>,
    read: impl Fn(&[u8]) -> Result<T, ModifierFault>,
) -> Result<(), ModifierFault> {
    for value in unescaped(text, b'|') {
        match value {
            [b'~', value @ ..] => to.excluded.push(read(value)?),
            value => to.named.push(read(value)?),
        }
    }
    Ok(())
}

fn rtype(text: &[u8]) -> Result<Type, ModifierFault> {
    Type::from_text(text).map_err(|_| ModifierFault::Type(shown(text)))
}

/// Reads the wire form of a name.
fn domain(text: &[u8]) -> Result<Box<[u8]>, ModifierFault> {
    let fault = || ModifierFault::Domain(shown(text));
    let is_plain = text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte));
    let name = NameBuf::from_text(text, Some(Name::ROOT)).map_err(|_| fault())?;
    if !is_plain || name.as_name().is_root() {
        return Err(fault());
    }
    Ok(name.as_name().to_lower().as_lower().as_wire().into())
}

/// Reads the address or network of a client, or the name of a group, with or without quotation marks.
fn client(text: &[u8]) -> Result<ClientValue, ModifierFault> {
    let value = match text {
        [b'\'', value @ .., b'\''] | [b'"', value @ .., b'"'] => value,
        value => value,
    };
    let parsed = std::str::from_utf8(value).map(str::parse::<Prefix>);
    match parsed {
        Ok(Ok(prefix)) => Ok(ClientValue::Prefix(prefix.to_canonical())),
        // A text with a slash is no name, but a network with a fault.
        Ok(Err(fault)) if fault != PrefixFault::Address || value.contains(&b'/') => {
            Err(ModifierFault::Client(shown(text), fault))
        }
        _ => word("client", value).map(ClientValue::Name),
    }
}

/// Reads the name or a tag of a group.
fn word(modifier: &'static str, text: &[u8]) -> Result<Box<str>, ModifierFault> {
    let text = without_escapes(text);
    match String::from_utf8(text) {
        Ok(word) if !word.is_empty() && !word.chars().any(char::is_control) => Ok(word.into()),
        Ok(word) => Err(ModifierFault::Word(modifier, word)),
        Err(fault) => Err(ModifierFault::Word(modifier, shown(fault.as_bytes()))),
    }
}

/// Returns a text without the backslashes before commas, bars and quotation marks.
fn without_escapes(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match bytes.peek() {
            Some(b',' | b'|' | b'\'' | b'"') if byte == b'\\' => out.extend(bytes.next()),
            _ => out.push(byte),
        }
    }
    out
}

/// The first characters of a text, for a message.
fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).chars().take(40).collect()
}
