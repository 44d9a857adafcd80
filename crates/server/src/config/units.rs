//! Values that configuration text spells in its own way: durations ("30s"), sizes ("512MiB"), endpoints
//! ("192.0.2.1@53"), worker counts ("auto"). Parsing and printing only; TOML positions are `raw`'s matter.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Reads "500ms", "30s", "5m", "2h", "1d", or several of them in a row ("1h30m").
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let fault = || format!("`{text}` is not a duration; write 500ms, 30s, 5m, 2h or 1d");
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
    format!("{ms}ms")
}

/// Reads "4096", "64KiB", "512MiB" or "2GiB" as bytes.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let fault = || format!("`{text}` is not a size; write 4096, 64KiB, 512MiB or 2GiB");
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

/// An address and a port, written `ip@port`: `192.0.2.1@53`, `[2001:db8::1]@53` or `2001:db8::1@53`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint(pub SocketAddr);

impl Endpoint {
    /// Reads `ip@port`; the port may be left out where `default_port` gives one.
    pub fn parse(text: &str, default_port: Option<u16>) -> Result<Self, String> {
        let (ip, port) = match (text.split_once('@'), default_port) {
            (Some((ip, port)), _) => (ip, Some(port)),
            (None, Some(_)) => (text, None),
            (None, None) => {
                let near = text.parse::<SocketAddr>().map(|a| format!("; write `{}`", Self(a)));
                let advice = near.unwrap_or_default();
                return Err(format!("`{text}` has no port: addresses are written ip@port{advice}"));
            }
        };
        let bare = ip.strip_prefix('[').and_then(|s| s.strip_suffix(']')).unwrap_or(ip);
        let address: IpAddr = bare.parse().map_err(|_| format!("`{ip}` is not an IPv4 or IPv6 address"))?;
        let port = match (port, default_port) {
            (Some(port), _) => match port.parse::<u16>() {
                Ok(0) => return Err("port 0 cannot be listened on".into()),
                Ok(port) => port,
                Err(_) => return Err(format!("`{port}` is not a port between 1 and 65535")),
            },
            (None, Some(port)) => port,
            (None, None) => return Err("the port is missing".into()),
        };
        Ok(Self(SocketAddr::new(address, port)))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.ip() {
            IpAddr::V4(ip) => write!(f, "{ip}@{}", self.0.port()),
            IpAddr::V6(ip) => write!(f, "[{ip}]@{}", self.0.port()),
        }
    }
}

/// How many threads answer queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// One for each CPU the process may run on.
    Auto,
    /// This many, 1 to 1024.
    Count(u16),
}

impl Workers {
    /// The number of threads to start.
    pub fn count(self) -> usize {
        match self {
            Self::Auto => std::thread::available_parallelism().map_or(1, usize::from),
            Self::Count(n) => usize::from(n),
        }
    }
}

/// A transport that a `[[listen]]` block opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Proto {
    /// DNS in datagrams (RFC 1035 §4.2.1).
    Udp,
    /// DNS over TCP (RFC 7766).
    Tcp,
}

impl Proto {
    /// Every transport with the word that names it.
    pub const ALL: [(&'static str, Self); 2] = [("udp", Self::Udp), ("tcp", Self::Tcp)];
}

impl fmt::Display for Proto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        })
    }
}

/// What `version.bind` and `id.server` questions (class CHAOS) get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// The built-in text: the program and its version, or the host's name.
    Auto,
    /// REFUSED.
    Hide,
    /// This text.
    Text(String),
}

/// The name server identifier of RFC 5001: text as it is, or octets written `0x…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nsid(pub Vec<u8>);

impl Nsid {
    /// Longest identifier accepted, in octets: it travels in every answer that asked for it.
    pub const MAX_LEN: usize = 128;

    /// Reads text, or hexadecimal digits after `0x`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let octets = match text.strip_prefix("0x") {
            None => text.as_bytes().to_vec(),
            Some(hex) => {
                let digits: Option<Vec<u8>> =
                    hex.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
                match digits {
                    Some(d) if d.len() % 2 == 0 => d.chunks(2).map(|p| p[0] << 4 | p[1]).collect(),
                    _ => return Err("after `0x` an even number of hexadecimal digits is expected".into()),
                }
            }
        };
        match octets.len() {
            0 => Err("an empty identifier says nothing; leave the key out".into()),
            n if n > Self::MAX_LEN => Err(format!("{n} octets are too many (at most {})", Self::MAX_LEN)),
            _ => Ok(Self(octets)),
        }
    }
}

/// Which queries are logged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum QueryLog {
    /// None.
    Off,
    /// All, as far as the log keeps up.
    On,
    /// About this share of them, above 0 and at most 1.
    Sample(f64),
}

/// Where log lines go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard error, which systemd and container runtimes collect.
    Stderr,
    /// Standard output.
    Stdout,
    /// Appended to a file.
    File(PathBuf),
}

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// One line of text per event.
    Text,
    /// One JSON object per event.
    Json,
}

/// The least severe events that are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Only what stops something from working.
    Error,
    /// And what looks wrong.
    Warn,
    /// And what an operator wants to know.
    Info,
    /// And what a developer wants to know.
    Debug,
    /// Everything.
    Trace,
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
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("512MiB"), Ok(512 << 20));
        assert_eq!(parse_size("10"), Ok(10));
        for bad in ["", "MiB", "1MB", "1.5MiB", "-1", "99999999999999TiB"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn endpoints() {
        for good in ["192.0.2.1@53", "[2001:db8::1]@53", "2001:db8::1@53"] {
            assert!(Endpoint::parse(good, None).is_ok(), "{good}");
        }
        for bad in ["192.0.2.1", "192.0.2.1:53", "@53", "192.0.2.1@0", "192.0.2.1@65536", "host@53", "1@2@3"]
        {
            assert!(Endpoint::parse(bad, None).is_err(), "{bad}");
        }
        let message = Endpoint::parse("192.0.2.1:53", None).unwrap_err();
        assert!(message.contains("192.0.2.1@53"), "{message}");
        assert_eq!(Endpoint::parse("::1", Some(53)).map(|e| e.to_string()), Ok("[::1]@53".into()));
    }

    #[test]
    fn nsid_is_text_or_hex() {
        assert_eq!(Nsid::parse("ams1"), Ok(Nsid(b"ams1".to_vec())));
        assert_eq!(Nsid::parse("0xC0ffee"), Ok(Nsid(vec![0xc0, 0xff, 0xee])));
        assert!(Nsid::parse("0xabc").is_err());
        assert!(Nsid::parse("").is_err());
        assert!(Nsid::parse(&"x".repeat(129)).is_err());
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
        fn endpoint_text_round_trips(ip in any::<IpAddr>(), port in 1u16..) {
            let value = Endpoint(SocketAddr::new(ip, port));
            prop_assert_eq!(Endpoint::parse(&value.to_string(), None), Ok(value));
        }

        #[test]
        fn any_text_is_an_answer_or_an_error(text in "\\PC{0,20}") {
            let _ = (parse_duration(&text), parse_size(&text), Endpoint::parse(&text, None), Nsid::parse(&text));
        }
    }
}
