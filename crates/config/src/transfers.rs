//! `[transfers]`, `[[tsig-key]]` and access to transfers: transfers to and from other servers.

use std::fmt;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use toml::Spanned;
use toml::de::DeValue;
use transfer::tsig::{TsigAlgorithm, TsigKey, TsigKeys, read_keys};
use transport::{CertificateRule, CertificateRuleFault, ClientCertificate};
use wire::{LowerNameBuf, NameBuf, Prefix, PrefixFault};

use super::report::{ConfigPlace, Diagnostic};
use super::table::keys;
use super::table::read::{At, Reader};
use super::table::value::{Int, Size, Time, Value, Word, quote};
use super::zone_name::{ZoneNameFault, zone_name};
use crate::machine::{usual_memory, usual_size};
use wording::reason;

keys! {
    /// Zone transfers to and from other servers (RFC 5936, RFC 1995).
    pub struct TransfersSection in "[transfers]" {
        /// Most outgoing transfers at a time; further ones are answered with SERVFAIL. Refused requests do
        /// not count.
        live "outgoing" outgoing: Int<usize, 1, 100_000> = Int(100), example 200;
        /// Most outgoing transfers at a time to one address.
        live "outgoing-per-client" per_client: Int<usize, 1, 100_000> = Int(10), example 20;
        /// Most outgoing transfers at a time to one network: an IPv4 /24 or an IPv6 /56. Unset: half of
        /// `outgoing`, at least `outgoing-per-client`.
        live "outgoing-per-network" per_network: Option<Int<usize, 1, 100_000>> = None, example 50;
        /// Time without progress, because the client does not read, after which an outgoing transfer is
        /// cancelled if another one needs its place. Of several, the one stalled longest is cancelled.
        live "outgoing-stall" stall: Time<10, 600_000> = Time::secs(1), example "3s";
        /// Least bytes per second that the client of an outgoing transfer must read, measured over 3 s. A
        /// slower transfer is cancelled if another one needs its place, the slowest first; for a minute,
        /// clients of its network get free places only. 0: no limit.
        live "outgoing-min-rate" min_rate: Int<u64, 0, 1_000_000_000> = Int(50_000), example 10_000;
        /// Most zones at a time that query a primary for its SOA record or transfer from it; others wait.
        live "incoming" incoming: Int<usize, 1, 10_000> = Int(64), example 20;
        /// Most of these at one primary.
        live "incoming-per-primary" incoming_per_primary: Int<usize, 1, 10_000> = Int(8), example 4;
        /// Most records of one incoming transfer. A larger one is cancelled, and the zone stays unchanged.
        live "incoming-max-records" incoming_records: Int<u64, 1, 4_294_967_295> = Int(100_000_000),
            example 1000000;
        /// Most bytes of one incoming transfer, of its messages and of memory for its records; a larger one
        /// is cancelled. Unset: a quarter of the memory of the machine or of its control group, at most 16
        /// GiB.
        live "incoming-max-size" incoming_size: Option<Size<65_536, 1_099_511_627_776>> = None,
            example "1GiB";
        /// Most bytes of memory for all incoming transfers together: their records, and the zones built from
        /// them until these go into service. If they need more, the largest transfer is cancelled. Unset:
        /// half of the memory of the machine or of its control group.
        live "incoming-memory" memory: Option<Size<65_536, 1_099_511_627_776>> = None, example "2GiB";
        /// Longest time of one incoming transfer; a longer one is cancelled.
        live "incoming-max-time" incoming_time: Time<1_000, 604_800_000> = Time::secs(7200), example "30m";
        /// Least bytes per second of an incoming transfer, measured each minute. A slower one is cancelled.
        /// 0: no limit.
        live "incoming-min-rate" incoming_rate: Int<u64, 0, 1_000_000_000> = Int(100), example 1000;
        /// Longest time in which an incoming transfer receives no data; then it is cancelled.
        live "incoming-idle-timeout" incoming_idle: Time<1_000, 3_600_000> = Time::secs(60), example "30s";
        /// Most NOTIFY messages at a time without a reply; others wait.
        live "notify-in-flight" notify_in_flight: Int<usize, 1, 2_000> = Int(400), example 200;
        /// Most of these to one secondary, so that one that does not answer does not delay the others.
        live "notify-per-secondary" notify_per_secondary: Int<usize, 1, 2_000> = Int(20), example 10;
        /// Files with keys, in addition to `[[tsig-key]]`: each `key "NAME" { algorithm NAME; secret
        /// "BASE64"; };`, as `tsig-keygen` prints them and BIND reads them.
        live "key-files" key_files: Option<Vec<At<PathBuf>>> = None, example ["keys/transfer.key"];
        /// Most that the clocks of both sides of a signed message (TSIG) may differ, also where the sender
        /// allows more (its fudge); the messages that nomen signs allow as much. A longer time gives others
        /// longer to send a captured message again.
        live "tsig-fudge" fudge: Time<1_000, 65_535_000> = Time::secs(300), example "1m";
    }
}

keys! {
    /// A key that signs messages between servers (TSIG, RFC 8945). Use `key-files` instead if the
    /// configuration is more widely readable than the keys may be.
    pub struct TsigKeyBlock in "[[tsig-key]]" {
        /// Name of the key, the same on both servers.
        live "name" name: NameBuf, example "transfer.example.com";
        /// HMAC algorithm of the signatures.
        live "algorithm" algorithm: TsigAlgorithm = TsigAlgorithm::HmacSha256, example "hmac-sha512";
        /// The secret in base64. Anyone who can read it can sign.
        live "secret" secret: Secret, example "jUkTv3UwI7HhMFZ6zeEYzkSYIz2tfLz9lhLX8DQ9Pqo=";
    }
}

impl TransfersSection {
    /// Returns the largest size of one incoming transfer, in bytes.
    pub fn incoming_size(&self) -> u64 {
        self.incoming_size.value.map_or_else(usual_size, |size| size.0 as u64)
    }

    /// Returns the memory that all incoming transfers may take together, in bytes.
    pub fn incoming_memory(&self) -> u64 {
        self.memory.value.map_or_else(usual_memory, |size| size.0 as u64)
    }

    /// Returns the largest number of transfers to one network.
    pub fn per_network(&self) -> usize {
        let unset = (self.outgoing.0 / 2).max(self.per_client.0);
        self.per_network.value.map_or(unset, |most| most.0)
    }
}

impl Word for TsigAlgorithm {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("hmac-sha256", Self::HmacSha256),
        ("hmac-sha384", Self::HmacSha384),
        ("hmac-sha512", Self::HmacSha512),
        ("hmac-sha224", Self::HmacSha224),
        ("hmac-sha1", Self::HmacSha1),
    ];
}

/// A secret in base64, which is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Returns the secret, for clients that may read all secrets.
    pub fn base64(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Value for Secret {
    fn kind() -> String {
        "base64".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        let secret =
            reader.text(node, "a secret in base64", |text| Ok::<_, String>(Self(text.to_owned())))?;
        if TsigKey::from_base64(wire::Name::ROOT, TsigAlgorithm::HmacSha256, &secret.0).is_err() {
            reader.bad_value(node, "the secret is not base64, or empty");
            return None;
        }
        Some(secret)
    }
    fn render(&self) -> Option<String> {
        Some(quote("hidden"))
    }
}

/// Clients that may transfer a zone: those that meet every condition that is set.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TransferGrant {
    /// The client's network; `None` for any.
    from: Option<Prefix>,
    /// The key that signed the request; `None` for any, and for unsigned requests.
    key: Option<LowerNameBuf>,
    /// The certificate that the client has shown over TLS; `None` for any, and for clients without one.
    certificate: Option<CertificateRule>,
}

impl TransferGrant {
    /// Returns whether it matches a client at `address` whose request is signed with `key`, on a connection
    /// on which it has shown `certificate`.
    pub fn fits(
        &self,
        address: IpAddr,
        key: Option<&TsigKey>,
        certificate: Option<&ClientCertificate>,
    ) -> bool {
        let here = self.from.is_none_or(|from| from.contains(address));
        let signed = |name: &LowerNameBuf| key.is_some_and(|key| key.name() == name.as_lower());
        let shown = |rule: &CertificateRule| rule.fits(certificate);
        here && self.key.as_ref().is_none_or(signed) && self.certificate.as_ref().is_none_or(shown)
    }

    /// Returns the certificate of its clients.
    pub fn certificate(&self) -> Option<&CertificateRule> {
        self.certificate.as_ref()
    }

    /// Returns the network of its clients.
    pub fn from(&self) -> Option<Prefix> {
        self.from
    }

    /// Returns the text that it is read from.
    pub fn words(&self) -> String {
        let from = self.from.map(|from| from.to_string());
        let key = self.key.as_ref().map(|key| format!("key:{}", key.as_name()));
        let certificate = self.certificate.as_ref().map(|rule| format!("cert:{rule}"));
        let words: Vec<String> = from.into_iter().chain(key).chain(certificate).collect();
        if words.is_empty() { "any".to_owned() } else { words.join(" ") }
    }

    /// Returns the name of the key of its clients.
    pub fn key(&self) -> Option<&LowerNameBuf> {
        self.key.as_ref()
    }
}

/// What is wrong with the text of a [`TransferGrant`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantFault {
    /// It is empty.
    Empty,
    /// It has two networks, two keys, or two certificates.
    Twice,
    /// This is not the name of a key.
    Key(ZoneNameFault),
    /// This names no certificate.
    Certificate(CertificateRuleFault),
    /// This is not a network.
    Network(String, PrefixFault),
}

impl fmt::Display for GrantFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("it names no client; write a network, \"key:NAME\", both, or \"any\""),
            Self::Twice => f.write_str(
                "one network, one key and one certificate at most; write further ones as list members",
            ),
            Self::Key(fault) => write!(f, "the name of the key: {fault}"),
            Self::Certificate(fault) => write!(f, "the certificate: {fault}"),
            Self::Network(text, _) => {
                write!(f, "`{text}` is neither a network such as 192.0.2.0/24, nor \"key:NAME\", nor \"any\"")
            }
        }
    }
}

impl std::str::FromStr for TransferGrant {
    type Err = GrantFault;

    fn from_str(text: &str) -> Result<Self, GrantFault> {
        let (mut grant, mut any) = (TransferGrant { from: None, key: None, certificate: None }, false);
        for word in text.split_whitespace() {
            if let Some(text) = word.strip_prefix("cert:") {
                let rule = text.parse().map_err(GrantFault::Certificate)?;
                if grant.certificate.replace(rule).is_some() {
                    return Err(GrantFault::Twice);
                }
                continue;
            }
            let twice = match word.strip_prefix("key:") {
                Some(name) => {
                    let name = zone_name(name).map_err(GrantFault::Key)?;
                    grant.key.replace(name.as_name().to_lower()).is_some()
                }
                None if word == "any" => std::mem::replace(&mut any, true) || grant.from.is_some(),
                None => {
                    let network =
                        word.parse().map_err(|fault| GrantFault::Network(word.to_owned(), fault))?;
                    grant.from.replace(network).is_some() || any
                }
            };
            if twice {
                return Err(GrantFault::Twice);
            }
        }
        let TransferGrant { from, key, certificate } = &grant;
        let is_empty = from.is_none() && key.is_none() && certificate.is_none();
        if is_empty && !any { Err(GrantFault::Empty) } else { Ok(grant) }
    }
}

impl Value for TransferGrant {
    fn kind() -> String {
        "client `network`, `key:NAME`, `cert:NAME`, several of them, or `any`".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "a network such as \"192.0.2.0/24\", or \"key:NAME\"", str::parse)
    }
    fn render(&self) -> Option<String> {
        Some(quote(&self.words()))
    }
}

/// Returns the keys of the configuration: those of the blocks, and those of the key files, which it reads.
pub fn load_keys(
    blocks: &[At<TsigKeyBlock>],
    transfers: &TransfersSection,
    faults: &mut Vec<Diagnostic>,
) -> TsigKeys {
    let mut keys: Vec<(TsigKey, Option<ConfigPlace>)> = Vec::new();
    let mut add = |key: TsigKey, place: Option<&ConfigPlace>, faults: &mut Vec<Diagnostic>| match keys
        .iter()
        .find(|(other, _)| other.name() == key.name())
    {
        Some((_, first)) => {
            let message = format!("key {} is defined twice", key.name().as_name());
            faults.push(Diagnostic::at(place, message).also(first.as_ref(), "first here"));
        }
        None => keys.push((key, place.cloned())),
    };
    for block in blocks {
        // The value's parser has checked that the secret is base64.
        let key = TsigKey::from_base64(block.name.as_name(), *block.algorithm, &block.secret.0);
        key.into_iter().for_each(|key| add(key, block.name.place.as_ref(), faults));
    }
    for file in transfers.key_files.value.iter().flatten() {
        match read_file(file) {
            Ok(found) => found.into_iter().for_each(|key| add(key, file.place.as_ref(), faults)),
            Err(fault) => faults.push(fault),
        }
    }
    // The key's range fits.
    let fudge = u16::try_from(transfers.fudge.0.as_secs()).unwrap_or(u16::MAX);
    TsigKeys::new(keys.into_iter().map(|(key, _)| key.with_fudge(fudge))).unwrap_or_default()
}

/// Largest size of a key file, in bytes.
const MOST_KEYS: u64 = 16 << 20;

/// The write permissions of a file's group and of all others.
const OTHERS_WRITE: u32 = 0o022;

fn read_file(file: &At<PathBuf>) -> Result<Vec<TsigKey>, Diagnostic> {
    let (place, shown) = (file.place.as_ref(), file.value.display());
    // Other users who can write a key file can choose a key, and with it transfer and change every zone.
    let exposed = std::fs::metadata(&file.value).is_ok_and(|about| about.mode() & OTHERS_WRITE != 0);
    if exposed {
        let message = format!(
            "the key file {shown} is not used: users other than its owner may write it; run `chmod go-w`, and \
            make new keys if others may have changed it"
        );
        return Err(Diagnostic::at(place, message).outside());
    }
    let text = zone::regular::read_to_string(&file.value, MOST_KEYS)
        .map_err(|e| Diagnostic::at(place, format!("cannot read {shown}: {}", reason(&e))).outside())?;
    read_keys(&text).map_err(|fault| Diagnostic::at(place, format!("{shown}:{fault}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_file_that_anybody_may_write_was_used() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.key");
        std::fs::write(&path, "key k.example { algorithm hmac-sha256; secret \"AAAA\"; };").expect("written");
        let file = At { value: path.clone(), place: None };
        for (mode, expected) in [(0o600, true), (0o640, true), (0o666, false), (0o620, false), (0o602, false)]
        {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("changed");
            let read = read_file(&file);
            assert_eq!(read.is_ok(), expected, "{mode:o}: {read:?}");
        }
    }

    fn grant(text: &str) -> Result<TransferGrant, GrantFault> {
        text.parse()
    }

    #[test]
    fn who_may_have_a_zone_meets_all_that_is_said() {
        let name: NameBuf = "k.example.".parse().expect("a name");
        let key = TsigKey::new(name.as_name(), TsigAlgorithm::HmacSha256, &[1]).expect("a key");
        let (inside, outside): (IpAddr, IpAddr) =
            ("192.0.2.9".parse().expect("an address"), "198.51.100.1".parse().expect("an address"));
        for (text, expected) in [
            // Inside or outside of the network, with or without the key.
            ("192.0.2.0/24", [true, true, false, false]),
            ("key:K.example", [true, false, true, false]),
            ("192.0.2.0/24 key:k.example", [true, false, false, false]),
            ("key:other.example", [false, false, false, false]),
            ("any", [true, true, true, true]),
            ("any key:k.example", [true, false, true, false]),
        ] {
            let grant = grant(text).expect(text);
            let fits = |address, key| grant.fits(address, key, None);
            let found = [inside, outside].map(|address| [Some(&key), None].map(|key| fits(address, key)));
            assert_eq!(found.as_flattened(), expected, "{text}");
        }
    }

    #[test]
    fn what_means_nobody_or_too_much_is_refused() {
        assert_eq!(grant(" "), Err(GrantFault::Empty));
        assert_eq!(grant("192.0.2.1 192.0.2.2"), Err(GrantFault::Twice));
        assert_eq!(grant("key:a key:b"), Err(GrantFault::Twice));
        assert_eq!(grant("any 192.0.2.1"), Err(GrantFault::Twice));
        assert!(matches!(grant("key:a..b"), Err(GrantFault::Key(_))));
        assert!(matches!(grant("everybody"), Err(GrantFault::Network(..))));
    }

    #[test]
    fn a_secret_is_never_shown() {
        let secret = Secret("c2VjcmV0".into());
        assert!(!format!("{secret:?} {:?}", secret.render()).contains("c2Vj"));
    }
}
