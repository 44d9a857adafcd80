//! Values of keys of several features: numbers within bounds, durations ("30s"), sizes ("512MiB"), texts,
//! paths, addresses ("192.0.2.1@53"), words from a fixed set, and lists. Values of a single feature are
//! beside its keys.

use std::fmt::{self, Display};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use toml::Spanned;
use toml::de::DeValue;

use super::read::{At, Reader};

/// The type of a key's value.
pub trait Value: Sized {
    /// Returns its name on the reference page and in error messages.
    fn kind() -> String;
    /// Parses a value; reports faults to the reader.
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self>;
    /// Returns the value as TOML; `None` if the value is "not set".
    fn render(&self) -> Option<String>;
    /// Whether a list of such values may be empty.
    const MAY_BE_NONE: bool = false;
}

/// Returns text as a TOML string, escaped.
pub fn quote(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Returns the words as `"a", "b" or "c"`.
pub fn list<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = words.map(|w| format!("\"{w}\"")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

impl<T: Value> Value for Option<T> {
    fn kind() -> String {
        T::kind()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        T::read(node, reader).map(Some)
    }
    fn render(&self) -> Option<String> {
        self.as_ref().and_then(Value::render)
    }
}

/// Lists store each member's place, so that a later fault points at the member.
impl<T: Value> Value for Vec<At<T>> {
    fn kind() -> String {
        format!("list of {}", plural(&T::kind()))
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        let Some(array) = node.get_ref().as_array() else {
            reader.wrong_type(node, &format!("a {}", Self::kind()));
            return None;
        };
        if array.is_empty() && !T::MAY_BE_NONE {
            reader.bad_value(node, "the list is empty");
            return None;
        }
        let mut all = Vec::with_capacity(array.len());
        let mut good = true;
        for member in array.iter() {
            let place = Some(reader.place(member.span()));
            match T::read(member, reader) {
                Some(value) => all.push(At { value, place }),
                None => good = false,
            }
        }
        good.then_some(all)
    }
    fn render(&self) -> Option<String> {
        let members: Option<Vec<String>> = self.iter().map(|m| m.value.render()).collect();
        members.map(|m| format!("[{}]", m.join(", ")))
    }
}

/// Returns the plural of a kind: of its first word if an explanation follows.
fn plural(kind: &str) -> String {
    match kind.split_once(' ') {
        Some((first, rest)) if rest.starts_with(['`', '(']) => format!("{} {rest}", plural(first)),
        _ if kind.ends_with('s') => format!("{kind}es"),
        _ => format!("{kind}s"),
    }
}

/// A share from 0 to 1 inclusive, such as 0.2.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share(pub f64);

impl Value for Share {
    fn kind() -> String {
        "share (0 to 1)".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        let value = match node.get_ref() {
            DeValue::Float(share) => share.as_str().parse().ok(),
            DeValue::Integer(share) => share.as_str().parse().ok(),
            _ => {
                reader.wrong_type(node, "a number such as 0.2");
                return None;
            }
        };
        match value {
            Some(share) if (0.0..=1.0).contains(&share) => Some(Self(share)),
            _ => {
                reader.bad_value(node, "expected a share from 0 to 1".to_owned());
                None
            }
        }
    }
    fn render(&self) -> Option<String> {
        Some(self.0.to_string())
    }
}

impl Value for bool {
    fn kind() -> String {
        "true or false".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        let value = node.get_ref().as_bool();
        if value.is_none() {
            reader.wrong_type(node, "true or false");
        }
        value
    }
    fn render(&self) -> Option<String> {
        Some(self.to_string())
    }
}

/// A value that is one of a fixed set of words.
pub trait Word: Copy + PartialEq + 'static {
    /// Every value with its word.
    const WORDS: &'static [(&'static str, Self)];

    /// Returns its name on the reference page.
    fn kind() -> String {
        list(Self::WORDS.iter().map(|(word, _)| *word))
    }
}

impl<T: Word> Value for T {
    fn kind() -> String {
        <T as Word>::kind()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.word(node, Self::WORDS)
    }
    fn render(&self) -> Option<String> {
        Self::WORDS.iter().find(|(_, value)| value == self).map(|(word, _)| quote(word))
    }
}

/// An integer within inclusive bounds, in the type that its user needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Int<T, const MIN: u64, const MAX: u64>(pub T);

impl<T: TryFrom<u64> + Display, const MIN: u64, const MAX: u64> Value for Int<T, MIN, MAX> {
    fn kind() -> String {
        format!("integer ({MIN} to {MAX})")
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        let Some(integer) = node.get_ref().as_integer() else {
            reader.wrong_type(node, "an integer");
            return None;
        };
        let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
        let value = number.filter(|n| (MIN..=MAX).contains(n)).and_then(|n| T::try_from(n).ok());
        if value.is_none() {
            reader.bad_value(node, format!("{integer} is out of range: {MIN} to {MAX}"));
        }
        value.map(Self)
    }
    fn render(&self) -> Option<String> {
        Some(self.0.to_string())
    }
}

/// A duration within inclusive bounds, given in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time<const MIN_MS: u64, const MAX_MS: u64>(pub Duration);

impl<const MIN: u64, const MAX: u64> Time<MIN, MAX> {
    /// Returns a duration of whole seconds.
    pub const fn secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

impl<const MIN: u64, const MAX: u64> Value for Time<MIN, MAX> {
    fn kind() -> String {
        let text = |ms| format_duration(Duration::from_millis(ms));
        format!("duration ({} to {})", text(MIN), text(MAX))
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        let value = reader.text(node, "a duration such as \"30s\"", parse_duration)?;
        let (min, max) = (Duration::from_millis(MIN), Duration::from_millis(MAX));
        if (min..=max).contains(&value) {
            return Some(Self(value));
        }
        let [value, min, max] = [value, min, max].map(format_duration);
        reader.bad_value(node, format!("{value} is out of range: {min} to {max}"));
        None
    }
    fn render(&self) -> Option<String> {
        Some(quote(&format_duration(self.0)))
    }
}

/// Text that is not a duration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoDuration(String);

impl Display for NoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a duration; write 500ms, 30s, 5m, 2h or 1d", self.0)
    }
}

/// Parses "500ms", "30s", "5m", "2h", "1d", or several of them in a row ("1h30m").
pub fn parse_duration(text: &str) -> Result<Duration, NoDuration> {
    let fault = || NoDuration(text.to_owned());
    let mut total: u64 = 0;
    let mut rest = text;
    if rest.is_empty() {
        return Err(fault());
    }
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: u64 = rest[..digits].parse().map_err(|_| fault())?;
        rest = &rest[digits..];
        let letters = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let factor: u64 = match &rest[..letters] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(fault()),
        };
        rest = &rest[letters..];
        total = number.checked_mul(factor).and_then(|n| total.checked_add(n)).ok_or_else(fault)?;
    }
    Ok(Duration::from_millis(total))
}

/// Prints a duration with the largest unit that divides it.
pub fn format_duration(value: Duration) -> String {
    let ms = u64::try_from(value.as_millis()).unwrap_or(u64::MAX);
    for (unit, factor) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)] {
        if ms >= factor && ms.is_multiple_of(factor) {
            return format!("{}{unit}", ms / factor);
        }
    }
    if ms == 0 { "0s".into() } else { format!("{ms}ms") }
}

/// A duration in whole seconds within inclusive bounds, such as a TTL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seconds<const MIN: u32, const MAX: u32>(pub u32);

impl<const MIN: u32, const MAX: u32> Value for Seconds<MIN, MAX> {
    fn kind() -> String {
        let text = |seconds: u32| format_duration(Duration::from_secs(seconds.into()));
        format!("duration ({} to {})", text(MIN), text(MAX))
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        let value = reader.text(node, "a duration such as \"30s\"", parse_duration)?;
        let text = format_duration(value);
        if value.subsec_millis() != 0 {
            reader.bad_value(node, format!("{text} is not a number of whole seconds"));
            return None;
        }
        let seconds = u32::try_from(value.as_secs()).ok().filter(|seconds| (MIN..=MAX).contains(seconds));
        if seconds.is_none() {
            let [min, max] = [MIN, MAX].map(|bound| format_duration(Duration::from_secs(bound.into())));
            reader.bad_value(node, format!("{text} is out of range: {min} to {max}"));
        }
        seconds.map(Self)
    }
    fn render(&self) -> Option<String> {
        Some(quote(&format_duration(Duration::from_secs(self.0.into()))))
    }
}

/// A size in bytes within inclusive bounds: an integer or text such as "64KiB".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size<const MIN: usize, const MAX: usize>(pub usize);

impl<const MIN: usize, const MAX: usize> Value for Size<MIN, MAX> {
    fn kind() -> String {
        format!("size ({} to {})", format_size(MIN as u64), format_size(MAX as u64))
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        let value = match node.get_ref().as_integer() {
            Some(n) => u64::from_str_radix(n.as_str(), n.radix()).unwrap_or(u64::MAX),
            None => reader.text(node, "a size such as \"64KiB\"", parse_size)?,
        };
        match usize::try_from(value) {
            Ok(size) if (MIN..=MAX).contains(&size) => Some(Self(size)),
            _ => {
                let [shown, min, max] = [value, MIN as u64, MAX as u64].map(format_size);
                reader.bad_value(node, format!("{shown} is out of range: {min} to {max}"));
                None
            }
        }
    }
    fn render(&self) -> Option<String> {
        Some(quote(&format_size(self.0 as u64)))
    }
}

/// Text that is not a size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoSize(String);

impl Display for NoSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a size; write 4096, 64KiB, 512MiB or 2GiB", self.0)
    }
}

/// Parses "4096", "64KiB", "512MiB" or "2GiB" as bytes.
pub fn parse_size(text: &str) -> Result<u64, NoSize> {
    let fault = || NoSize(text.to_owned());
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number: u64 = text[..digits].parse().map_err(|_| fault())?;
    let shift = match text[digits..].trim_start() {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return Err(fault()),
    };
    number.checked_mul(1 << shift).ok_or_else(fault)
}

/// Prints a size with the largest binary unit that divides it.
pub fn format_size(bytes: u64) -> String {
    for (unit, shift) in [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        if bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// Why a text is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StringFault {
    /// It has no characters.
    Empty,
    /// It has control characters.
    Control,
}

impl Display for StringFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "the text is empty",
            Self::Control => "control characters are not allowed",
        })
    }
}

/// Non-empty text without control characters.
impl Value for String {
    fn kind() -> String {
        "text".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "a string", |text| match text {
            "" => Err(StringFault::Empty),
            t if t.chars().any(char::is_control) => Err(StringFault::Control),
            t => Ok(t.to_owned()),
        })
    }
    fn render(&self) -> Option<String> {
        Some(quote(self))
    }
}

/// A path; a relative one starts from the folder of the file that contains it.
impl Value for PathBuf {
    fn kind() -> String {
        "path".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        let text = String::read(node, reader)?;
        Some(reader.resolve(&text))
    }
    fn render(&self) -> Option<String> {
        Some(quote(&self.to_string_lossy()))
    }
}

/// An address and a port, written `ip@port`: `192.0.2.1@53`, `[2001:db8::1]@53` or `2001:db8::1@53`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddrPort(pub SocketAddr);

/// What is wrong with the text of an [`AddrPort`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddrPortFault {
    /// There is no `@`; with the address that was probably intended.
    NoPort(String, Option<AddrPort>),
    /// The text before the `@` is not an address.
    NoAddress(String),
    /// The port is 0, which means any port.
    PortZero,
    /// The text after the `@` is not a port.
    BadPort(String),
}

impl Display for AddrPortFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPort(text, meant) => {
                write!(f, "`{text}` has no port: addresses are written ip@port")?;
                meant.map_or(Ok(()), |meant| write!(f, "; write `{meant}`"))
            }
            Self::NoAddress(text) => write!(f, "`{text}` is not an IPv4 or IPv6 address"),
            Self::PortZero => f.write_str("port 0 cannot be used"),
            Self::BadPort(text) => write!(f, "`{text}` is not a port between 1 and 65535"),
        }
    }
}

impl AddrPort {
    /// Parses `ip@port`.
    pub fn parse(text: &str) -> Result<Self, AddrPortFault> {
        let Some((ip, port)) = text.split_once('@') else {
            return Err(AddrPortFault::NoPort(text.to_owned(), text.parse().ok().map(Self)));
        };
        let bare = ip.strip_prefix('[').and_then(|s| s.strip_suffix(']')).unwrap_or(ip);
        let address: IpAddr = bare.parse().map_err(|_| AddrPortFault::NoAddress(ip.to_owned()))?;
        match port.parse() {
            Ok(0) => Err(AddrPortFault::PortZero),
            Ok(port) => Ok(Self(SocketAddr::new(address, port))),
            Err(_) => Err(AddrPortFault::BadPort(port.to_owned())),
        }
    }
}

impl Display for AddrPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.ip() {
            IpAddr::V4(ip) => write!(f, "{ip}@{}", self.0.port()),
            IpAddr::V6(ip) => write!(f, "[{ip}]@{}", self.0.port()),
        }
    }
}

impl Value for AddrPort {
    fn kind() -> String {
        "address `ip@port`".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "an address such as \"192.0.2.1@53\"", Self::parse)
    }
    fn render(&self) -> Option<String> {
        Some(quote(&self.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations() {
        assert_eq!(parse_duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse_duration("0s"), Ok(Duration::ZERO));
        for bad in ["", "5", "s", "5 s", "-1s", "1.5s", "99999999999999999d", "5x", "1sé"] {
            assert_eq!(parse_duration(bad), Err(NoDuration(bad.into())));
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("512MiB"), Ok(512 << 20));
        assert_eq!(parse_size("10"), Ok(10));
        for bad in ["", "MiB", "1MB", "1.5MiB", "-1", "99999999999999TiB"] {
            assert_eq!(parse_size(bad), Err(NoSize(bad.into())));
        }
    }

    #[test]
    fn addresses_with_ports() {
        for good in ["192.0.2.1@53", "[2001:db8::1]@53", "2001:db8::1@53"] {
            assert!(AddrPort::parse(good).is_ok(), "{good}");
        }
        let meant = AddrPort::parse("192.0.2.1@53").ok();
        let cases = [
            ("192.0.2.1", AddrPortFault::NoPort("192.0.2.1".into(), None)),
            ("192.0.2.1:53", AddrPortFault::NoPort("192.0.2.1:53".into(), meant)),
            ("@53", AddrPortFault::NoAddress("".into())),
            ("host@53", AddrPortFault::NoAddress("host".into())),
            ("192.0.2.1@0", AddrPortFault::PortZero),
            ("192.0.2.1@65536", AddrPortFault::BadPort("65536".into())),
            ("::1@2@3", AddrPortFault::BadPort("2@3".into())),
        ];
        for (bad, fault) in cases {
            assert_eq!(AddrPort::parse(bad), Err(fault), "{bad}");
        }
    }

    #[test]
    fn kinds_have_a_plural() {
        assert_eq!(<Vec<At<AddrPort>>>::kind(), "list of addresses `ip@port`");
        assert_eq!(plural("text"), "texts");
    }

    proptest! {
        #[test]
        fn duration_text_round_trips(ms in 0u64..1 << 50) {
            let value = Duration::from_millis(ms);
            prop_assert_eq!(parse_duration(&format_duration(value)), Ok(value));
        }

        #[test]
        fn size_text_round_trips(bytes in any::<u64>()) {
            prop_assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
        }

        #[test]
        fn address_text_round_trips(ip in any::<IpAddr>(), port in 1u16..) {
            let value = AddrPort(SocketAddr::new(ip, port));
            prop_assert_eq!(AddrPort::parse(&value.to_string()), Ok(value));
        }

        #[test]
        fn any_text_is_a_value_or_an_error(text in "\\PC{0,20}") {
            let _ = (parse_duration(&text), parse_size(&text), AddrPort::parse(&text));
        }
    }
}
