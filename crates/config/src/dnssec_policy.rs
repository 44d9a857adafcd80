//! `[dnssec-policy.X]`: how the keys and signatures of zones are maintained. `signing` has the keys by which
//! zones name a policy.

use std::collections::BTreeMap;
use std::fmt;

use toml::Spanned;
use toml::de::DeValue;
use wire::text::Hex;
use zone::catalog::OnlineDenial;
use zone::zonemd::ZonemdHash;

use super::report::{ConfigPlace, Diagnostic};
use super::table::keys;
use super::table::read::{At, Reader};
use super::table::value::{Int, Seconds, Size, Value, Word, list, quote};

/// Seconds of a day.
const DAY: u32 = 86_400;
/// Longest salt of NSEC3, in bytes (RFC 5155 §3.1.5).
const MAX_SALT: usize = 255;

/// The name of the policy that needs no table.
pub const DEFAULT_POLICY: &str = "default";
/// The name of the policy under which a zone becomes unsigned.
pub const INSECURE_POLICY: &str = "insecure";
/// In place of a policy: the zone has none, even if its template has one.
pub const NO_POLICY: &str = "none";
/// The names that no table can have.
pub const RESERVED_POLICIES: [&str; 3] = [DEFAULT_POLICY, INSECURE_POLICY, NO_POLICY];

/// Every `[dnssec-policy.X]` by its name.
pub type DnssecPolicies = BTreeMap<String, At<DnssecPolicySection>>;

/// A delay of a policy: up to 28 days.
type Delay = Seconds<0, 2_419_200>;
/// The lifetime of a key: 1 minute to 68 years.
type Lifetime = Option<Seconds<60, 2_147_483_647>>;

keys! {
    /// A policy of keys and signatures: `dnssec-policy = "X"` of a zone makes nomen sign the zone, with keys
    /// that it generates and rolls. Two policies need no table: `default` has the defaults below, and with
    /// `insecure` a signed zone becomes unsigned without a time at which validators reject it. Neither they
    /// nor `none` can be the name of a table. A change applies to all zones of the policy.
    pub struct DnssecPolicySection in "[dnssec-policy.X]" {
        /// Algorithm of the keys. A change rolls all keys of the zones.
        live "algorithm" algorithm: PolicyAlgorithm = PolicyAlgorithm::Ecdsap256sha256, example "ed25519";
        /// Whether one key signs everything (CSK). With `false` a KSK signs the DNSKEY RRset, and a ZSK signs
        /// all other RRsets.
        live "single-key" single_key: bool = true, example false;
        /// Whether the private KSK is kept elsewhere. Only with `single-key = false`, and without
        /// `ksk-lifetime`. ZSKs are generated ahead of time (`nomen ctl key pregenerate`), `nomen ctl key
        /// request` prints a key signing request, the machine with the KSK signs it (`nomen key
        /// sign-request`, or `dnssec-ksr` of BIND), and `nomen ctl key import-response` takes the response,
        /// whose DNSKEY, CDS and CDNSKEY RRsets are published at their times. Not for zones of a database.
        live "offline-ksk" offline_ksk: bool = false, example false;
        /// Bits of an RSA KSK or CSK: 2048, 3072 or 4096. Keys of other algorithms have one size. Unset:
        /// 2048.
        live "ksk-size" ksk_size: Option<RsaSize> = None, example 3072;
        /// Bits of an RSA ZSK. Only without `single-key`. Unset: 2048.
        live "zsk-size" zsk_size: Option<RsaSize> = None, example 2048;
        /// Time from the first use of a KSK or CSK to the start of its rollover, which needs a new DS record
        /// at the parent. It must be longer than one rollover takes. Unset: unlimited; the key is rolled when
        /// an operator orders it.
        live "ksk-lifetime" ksk_lifetime: Lifetime = None, example "365d";
        /// Time from the first use of a ZSK to the start of its rollover. Only without `single-key`. It must
        /// be longer than one rollover takes. Unset: unlimited; the key is rolled when an operator orders it.
        live "zsk-lifetime" zsk_lifetime: Lifetime = None, example "90d";
        /// Whether a second KSK is kept for emergencies. Its DNSKEY and DS records are published, and it
        /// signs nothing until `nomen ctl key roll --emergency` has it take over at once. Only with
        /// `single-key = false`, and without `offline-ksk`.
        live "standby-ksk" standby_ksk: bool = false, example true;
        /// Whether a second ZSK is kept for emergencies: its DNSKEY record is published, and it signs nothing
        /// until `nomen ctl key roll --emergency` has it take over at once. Only with `single-key = false`,
        /// and without `offline-ksk`.
        live "standby-zsk" standby_zsk: bool = false, example true;
        /// Whether NSEC3 (RFC 5155) proves what does not exist. With `false` NSEC does, from which clients
        /// can list all names of the zone.
        live "nsec3" nsec3: bool = false, example true;
        /// Whether insecure delegations have no NSEC3 records (opt-out), for zones that consist mostly of
        /// delegations. Only with `nsec3`.
        live "nsec3-opt-out" nsec3_opt_out: bool = false, example true;
        /// Additional hash iterations of NSEC3. RFC 9276 requires 0; many validators treat zones with more as
        /// insecure. Only with `nsec3`.
        live "nsec3-iterations" nsec3_iterations: Int<u16, 0, 50> = Int(0), example 1;
        /// Salt of NSEC3 in hexadecimal, up to 255 bytes. RFC 9276 recommends none. Only with `nsec3`. Unset:
        /// none.
        live "nsec3-salt" nsec3_salt: Option<Nsec3Salt> = None, example "8d4557157d6ceb2e";
        /// Sign answers when they are asked for, and the SOA and the other records of the zone's name
        /// beforehand. `"compact"` denies a name by one NSEC record at the name, with NOERROR (RFC 9824);
        /// `"minimal"` by two that cover it and its wildcard, with NXDOMAIN (RFC 4470). Neither can be used
        /// to list the names of the zone. Such a zone has no secondaries and no `primaries`. Not with
        /// `nsec3`, `zonemd`, `offline-ksk`, an RSA algorithm, or for zones of a database. Unset: the whole
        /// zone is signed beforehand.
        live "online" online: Option<OnlineDenial> = None, example "compact";
        /// Most signatures a second that answers of each zone get with `online`. Names that are not in the
        /// zone get three quarters of them at most. Queries beyond the limit get SERVFAIL. A signature of
        /// `ecdsap256sha256` takes about 20 µs of CPU time.
        live "online-signatures-per-second" online_rate: Int<u32, 1, 10_000_000> = Int(10_000), example 2_000;
        /// Memory for signatures that answers of each zone have got with `online`; a quarter of it is for
        /// names that are not in the zone. A signature takes about 250 bytes.
        live "online-cache" online_cache: Size<65_536, 4_294_967_296> = Size(4 << 20), example "64MiB";
        /// Time from the creation of a signature to its expiration.
        live "signature-validity" validity: Seconds<60, 31_536_000> = Seconds(14 * DAY), example "28d";
        /// How long before its expiration a signature is renewed. Shorter than `signature-validity`. Longer
        /// than the time for which the server, or a secondary, may be out of service.
        live "signature-refresh" refresh: Seconds<1, 31_536_000> = Seconds(5 * DAY), example "7d";
        /// Signatures expire earlier by up to this time, each by another part of it, so that not all of a
        /// zone are renewed at once. Shorter than `signature-validity` less `signature-refresh`.
        live "signature-jitter" jitter: Seconds<0, 31_536_000> = Seconds(DAY / 2), example "1d";
        /// How long before their creation signatures begin to be valid, for validators whose clocks are
        /// behind.
        live "inception-offset" inception_offset: Seconds<0, 86_400> = Seconds(3_600), example "2h";
        /// TTL of DNSKEY, CDS and CDNSKEY records.
        live "dnskey-ttl" dnskey_ttl: Seconds<1, 604_800> = Seconds(3_600), example "1d";
        /// Time that a new key is published beyond the time that caches need, before it is used.
        live "publish-safety" publish_safety: Delay = Seconds(3_600), example "1d";
        /// Time that an old key is published beyond the time that caches need, after its last use.
        live "retire-safety" retire_safety: Delay = Seconds(3_600), example "1d";
        /// Longest time until all servers of the zone have a new version of it.
        live "zone-propagation-delay" zone_delay: Delay = Seconds(300), example "1h";
        /// Longest time until all servers of the parent zone have a new DS record.
        live "parent-propagation-delay" parent_delay: Delay = Seconds(3_600), example "2h";
        /// TTL of the DS record at the parent, if nomen cannot ask the parent for it.
        live "parent-ds-ttl" parent_ds_ttl: Seconds<1, 2_419_200> = Seconds(DAY), example "1h";
        /// How long the files of a key are kept after its removal from the zone. `0s`: for ever.
        live "purge-keys" purge_keys: Seconds<0, 2_147_483_647> = Seconds(90 * DAY), example "30d";
        /// Whether the zone has CDS and CDNSKEY records (RFC 7344), by which a parent that supports them
        /// updates the DS record itself.
        live "cds" cds: bool = true, example false;
        /// Whether the zone has a CSYNC record (RFC 7477), by which a parent that supports it copies the NS
        /// records of the zone and the addresses of its name servers. nomen makes it again when these change,
        /// and notifies the parent.
        live "csync" csync: bool = false, example true;
        /// Digests of the zone (ZONEMD, RFC 8976), by which secondaries and resolvers verify a whole copy:
        /// `true` is `["sha384"]`, `false` is none.
        live "zonemd" zonemd: ZonemdDigests = ZonemdDigests(Vec::new()), example ["sha384"];
    }
}

/// An algorithm that nomen signs with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyAlgorithm {
    /// RSA with SHA-256, 8.
    Rsasha256,
    /// RSA with SHA-512, 10.
    Rsasha512,
    /// ECDSA on the curve P-256, 13.
    Ecdsap256sha256,
    /// ECDSA on the curve P-384, 14.
    Ecdsap384sha384,
    /// Ed25519, 15.
    Ed25519,
}

impl Word for PolicyAlgorithm {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("rsasha256", Self::Rsasha256),
        ("rsasha512", Self::Rsasha512),
        ("ecdsap256sha256", Self::Ecdsap256sha256),
        ("ecdsap384sha384", Self::Ecdsap384sha384),
        ("ed25519", Self::Ed25519),
    ];
}

impl Word for OnlineDenial {
    const WORDS: &'static [(&'static str, Self)] = &[("compact", Self::Compact), ("minimal", Self::Minimal)];
}

impl PolicyAlgorithm {
    /// Whether keys of the algorithm have a choice of sizes.
    pub fn is_rsa(self) -> bool {
        matches!(self, Self::Rsasha256 | Self::Rsasha512)
    }
}

/// Bits of the modulus of an RSA key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RsaSize(pub usize);

impl RsaSize {
    /// The sizes that nomen generates.
    const ALL: [usize; 3] = [2048, 3072, 4096];
}

impl Default for RsaSize {
    fn default() -> Self {
        RsaSize(2048)
    }
}

impl Value for RsaSize {
    fn kind() -> String {
        "integer (2048, 3072 or 4096)".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        let Some(integer) = node.get_ref().as_integer() else {
            reader.wrong_type(node, "an integer");
            return None;
        };
        let bits = usize::from_str_radix(integer.as_str(), integer.radix()).ok();
        let size = bits.filter(|bits| Self::ALL.contains(bits)).map(Self);
        if size.is_none() {
            reader.bad_value(node, format!("{integer} is not the size of an RSA key: 2048, 3072 or 4096"));
        }
        size
    }
    fn render(&self) -> Option<String> {
        Some(self.0.to_string())
    }
}

/// The salt of NSEC3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nsec3Salt(pub Vec<u8>);

/// Why a text is not a salt.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SaltFault {
    /// It is not hexadecimal.
    Hex(String),
    /// It has so many bytes.
    Long(usize),
}

impl fmt::Display for SaltFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hex(text) => write!(f, "`{text}` is not hexadecimal; two digits are one byte"),
            Self::Long(bytes) => write!(f, "the salt has {bytes} bytes, and {MAX_SALT} are possible"),
        }
    }
}

impl Nsec3Salt {
    fn parse(text: &str) -> Result<Self, SaltFault> {
        let fault = || SaltFault::Hex(text.to_owned());
        let (mut decoder, mut salt) = (Hex::default(), Vec::new());
        decoder.feed(text.as_bytes(), &mut salt).map_err(|_| fault())?;
        decoder.finish().map_err(|_| fault())?;
        if salt.len() <= MAX_SALT { Ok(Nsec3Salt(salt)) } else { Err(SaltFault::Long(salt.len())) }
    }
}

impl Value for Nsec3Salt {
    fn kind() -> String {
        "hexadecimal text".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "hexadecimal text such as \"8d45\"", Self::parse)
    }
    fn render(&self) -> Option<String> {
        Some(quote(&self.0.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
    }
}

/// The hash algorithms of the digests of a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZonemdDigests(pub Vec<ZonemdHash>);

impl Word for ZonemdHash {
    const WORDS: &'static [(&'static str, Self)] = &[("sha384", Self::Sha384), ("sha512", Self::Sha512)];
}

impl Value for ZonemdDigests {
    fn kind() -> String {
        format!("true, false, or list of {}", list(ZonemdHash::WORDS.iter().map(|(word, _)| *word)))
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        if let Some(is_on) = node.get_ref().as_bool() {
            return Some(Self(if is_on { vec![ZonemdHash::Sha384] } else { Vec::new() }));
        }
        if node.get_ref().as_array().is_none() {
            reader.wrong_type(node, "true, false, or a list such as [\"sha384\"]");
            return None;
        }
        let mut all: Vec<ZonemdHash> = Vec::new();
        for hash in <Vec<At<ZonemdHash>>>::read(node, reader)? {
            if all.contains(&hash.value) {
                reader.bad_value(node, format!("\"{}\" is here twice", hash.value.text()));
                return None;
            }
            all.push(hash.value);
        }
        Some(Self(all))
    }
    fn render(&self) -> Option<String> {
        match &self.0[..] {
            [] => Some("false".into()),
            all => {
                let words: Vec<String> = all.iter().map(|hash| quote(hash.text())).collect();
                Some(format!("[{}]", words.join(", ")))
            }
        }
    }
}

impl DnssecPolicySection {
    /// Seconds from the publication of a new key until all caches have it (Ipub of RFC 7583 §3.2.1).
    fn publish_interval(&self) -> u64 {
        [self.dnskey_ttl.0, self.publish_safety.0, self.zone_delay.0].into_iter().map(u64::from).sum()
    }

    /// Seconds from the start of the rollover of a ZSK to its end, at least: the TTLs of the zone, which the
    /// configuration does not have, come on top.
    fn zsk_rollover(&self) -> u64 {
        let renewal = u64::from(self.validity.0).saturating_sub(self.refresh.0.into());
        self.publish_interval() + renewal + u64::from(self.zone_delay.0) + u64::from(self.retire_safety.0)
    }

    /// The same of a KSK or CSK. Signatures of a CSK are renewed while the DS record changes.
    fn ksk_rollover(&self) -> u64 {
        let parent = [self.parent_delay.0, self.parent_ds_ttl.0, self.retire_safety.0];
        let of_parent = self.publish_interval() + parent.into_iter().map(u64::from).sum::<u64>();
        if self.single_key.value { of_parent.max(self.zsk_rollover()) } else { of_parent }
    }

    /// Reports values that contradict each other, and keys without effect.
    fn check(&self, faults: &mut Vec<Diagnostic>) {
        self.check_without_effect(faults);
        self.check_offline(faults);
        self.check_online(faults);
        let (validity, refresh, jitter) = (&self.validity, &self.refresh, &self.jitter);
        let first = |places: [&Option<ConfigPlace>; 3]| places.into_iter().flatten().next().cloned();
        if refresh.0 >= validity.0 {
            let place = first([&refresh.place, &validity.place, &None]);
            let text = format!(
                "`signature-refresh` ({}) is not shorter than `signature-validity` ({})",
                in_words(refresh.0.into()),
                in_words(validity.0.into())
            );
            faults.push(Diagnostic::at(place.as_ref(), text));
        } else if jitter.0 >= validity.0 - refresh.0 {
            let place = first([&jitter.place, &refresh.place, &validity.place]);
            let text = format!(
                "`signature-jitter` ({}) is not shorter than `signature-validity` less `signature-refresh` ({})",
                in_words(jitter.0.into()),
                in_words((validity.0 - refresh.0).into())
            );
            faults.push(Diagnostic::at(place.as_ref(), text));
        }
        let lifetimes = [
            ("ksk-lifetime", &self.ksk_lifetime, self.ksk_rollover()),
            ("zsk-lifetime", &self.zsk_lifetime, self.zsk_rollover()),
        ];
        for (key, lifetime, rollover) in lifetimes {
            let Some(seconds) = lifetime.value.as_ref().map(|lifetime| lifetime.0) else { continue };
            if u64::from(seconds) <= rollover {
                let [is, least] = [seconds.into(), rollover].map(in_words);
                let text =
                    format!("`{key}` is {is}, and a rollover under this policy takes at least {least}");
                let fault = Diagnostic::at(lifetime.place.as_ref(), text);
                faults.push(fault.hint("use a longer lifetime, or shorter times of this policy"));
            }
        }
    }

    /// Returns the keys about standby keys, with their names.
    fn standby_keys(&self) -> [(&At<bool>, &'static str); 2] {
        [(&self.standby_ksk, "standby-ksk"), (&self.standby_zsk, "standby-zsk")]
    }

    /// Reports keys that do not go together with a KSK that is offline.
    fn check_offline(&self, faults: &mut Vec<Diagnostic>) {
        if !self.offline_ksk.value {
            return;
        }
        if self.single_key.value {
            let text = "`offline-ksk` needs a KSK and a ZSK, and the policy has a single key";
            let place = self.offline_ksk.place.as_ref();
            faults.push(Diagnostic::at(place, text.to_owned()).hint("set `single-key = false`"));
        }
        if self.ksk_lifetime.value.is_some() {
            let text =
                "`ksk-lifetime` does not go together with `offline-ksk`: the server cannot replace the KSK";
            let fault = Diagnostic::at(self.ksk_lifetime.place.as_ref(), text.to_owned());
            faults.push(
                fault.hint(
                    "generate the next KSK where the present one is, and sign the next request with both",
                ),
            );
        }
        for (standby, key) in self.standby_keys() {
            if standby.value {
                let text = format!(
                    "`{key}` does not go together with `offline-ksk`: the responses have all keys of the zone"
                );
                faults.push(Diagnostic::at(standby.place.as_ref(), text));
            }
        }
        if self.ksk_size.place.is_some() && self.algorithm.is_rsa() {
            let text = "`ksk-size` has no effect with `offline-ksk`: the KSK is generated elsewhere";
            faults.push(Diagnostic::at(self.ksk_size.place.as_ref(), text.to_owned()));
        }
    }

    /// Reports keys that do not go together with signing while answering.
    fn check_online(&self, faults: &mut Vec<Diagnostic>) {
        let online = self.online.place.as_ref();
        if self.online.value.is_none() {
            return;
        }
        let others = [
            ("nsec3", self.nsec3.value, &self.nsec3.place, "NSEC records are made for each answer"),
            (
                "zonemd",
                !self.zonemd.0.is_empty(),
                &self.zonemd.place,
                "the zone has no signed copy to verify",
            ),
            (
                "offline-ksk",
                self.offline_ksk.value,
                &self.offline_ksk.place,
                "signed key responses are for zones that are signed beforehand",
            ),
        ];
        for (key, is_set, place, why) in others {
            if is_set {
                let text = format!("`{key}` does not go together with `online`: {why}");
                faults.push(
                    Diagnostic::at(place.as_ref(), text).also(online, "answers are signed because of this"),
                );
            }
        }
        if self.algorithm.is_rsa() {
            let text = "`online` does not go together with an RSA algorithm, whose signatures take too long";
            let fault = Diagnostic::at(self.algorithm.place.as_ref(), text.to_owned());
            faults.push(
                fault
                    .also(online, "answers are signed because of this")
                    .hint("use ecdsap256sha256 or ed25519"),
            );
        }
    }

    /// Reports keys that have no effect because of others.
    fn check_without_effect(&self, faults: &mut Vec<Diagnostic>) {
        let mut report = |place: &Option<ConfigPlace>, key: &str, why: &str| {
            if place.is_some() {
                faults.push(Diagnostic::at(place.as_ref(), format!("`{key}` has no effect {why}")));
            }
        };
        if !self.algorithm.is_rsa() {
            let why = "with an algorithm other than RSA, whose keys alone have a choice of sizes";
            report(&self.ksk_size.place, "ksk-size", why);
            report(&self.zsk_size.place, "zsk-size", why);
        }
        if self.single_key.value {
            let why = "with a single key: set `single-key = false`";
            if self.algorithm.is_rsa() {
                report(&self.zsk_size.place, "zsk-size", why);
            }
            report(&self.zsk_lifetime.place, "zsk-lifetime", why);
            for (standby, key) in self.standby_keys() {
                report(&standby.place.clone().filter(|_| standby.value), key, why);
            }
        }
        if self.online.value.is_none() {
            let why = "without `online`";
            report(&self.online_rate.place, "online-signatures-per-second", why);
            report(&self.online_cache.place, "online-cache", why);
        }
        if !self.nsec3.value {
            for (place, key) in [
                (&self.nsec3_opt_out.place, "nsec3-opt-out"),
                (&self.nsec3_iterations.place, "nsec3-iterations"),
                (&self.nsec3_salt.place, "nsec3-salt"),
            ] {
                report(place, key, "without `nsec3 = true`");
            }
        }
    }
}

/// Returns seconds as a duration such as "9d3h10m".
fn in_words(seconds: u64) -> String {
    let day = u64::from(DAY);
    let (mut text, mut rest) = (String::new(), seconds);
    for (unit, length) in [("d", day), ("h", 3_600), ("m", 60), ("s", 1)] {
        if rest >= length {
            text += &format!("{}{unit}", rest / length);
            rest %= length;
        }
    }
    if text.is_empty() { "0s".into() } else { text }
}

/// Reports the faults of all policies.
pub(super) fn check(policies: &DnssecPolicies, faults: &mut Vec<Diagnostic>) {
    for (name, policy) in policies {
        if RESERVED_POLICIES.contains(&name.as_str()) {
            let text = match name.as_str() {
                NO_POLICY => "`none` cannot be the name of a policy: it is the word for no policy".to_owned(),
                _ => format!("the policy `{name}` is built in and cannot be changed"),
            };
            let fault = Diagnostic::at(policy.place.as_ref(), text);
            faults.push(fault.hint("give the table another name, and zones `dnssec-policy` with that name"));
        }
        policy.check(faults);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn read(keys: &str) -> Result<DnssecPolicySection, String> {
        let text = format!("[dnssec-policy.own]\n{keys}\n");
        match crate::read_text("test", text, Path::new("/")) {
            Ok(mut read) => Ok(read.config.dnssec_policies.remove("own").expect("the policy").value),
            Err(rejected) => Err(rejected.to_string()),
        }
    }

    #[test]
    fn keys_are_read() {
        let keys = "algorithm = \"rsasha512\"\nsingle-key = false\nksk-size = 4096\nzsk-lifetime = \"90d\"\n\
            nsec3 = true\nnsec3-salt = \"8D45\"\nzonemd = [\"sha512\", \"sha384\"]\npurge-keys = \"0s\"";
        let policy = read(keys).expect("good");
        assert_eq!(*policy.algorithm, PolicyAlgorithm::Rsasha512);
        assert_eq!((*policy.ksk_size, *policy.zsk_size), (Some(RsaSize(4096)), None));
        assert_eq!(*policy.zsk_lifetime, Some(Seconds(90 * DAY)));
        assert_eq!(*policy.nsec3_salt, Some(Nsec3Salt(vec![0x8d, 0x45])));
        assert_eq!(policy.zonemd.0, [ZonemdHash::Sha512, ZonemdHash::Sha384]);
        assert_eq!(policy.purge_keys.0, 0);
        for (keys, expected) in [("zonemd = true", &[ZonemdHash::Sha384][..]), ("zonemd = false", &[])] {
            assert_eq!(read(keys).expect(keys).zonemd.0, expected, "{keys}");
        }
    }

    #[test]
    fn faults_are_reported_at_their_place() {
        for (keys, place, expected) in [
            ("algorithm = \"ecdsap256sha265\"", "2:13", "did you mean"),
            ("ksk-size = 1024\nalgorithm = \"rsasha256\"", "2:12", "1024 is not the size of an RSA key"),
            ("ksk-size = 2048", "2:12", "`ksk-size` has no effect with an algorithm other than RSA"),
            ("algorithm = \"rsasha256\"\nzsk-size = 2048", "3:12", "set `single-key = false`"),
            ("zsk-lifetime = \"90d\"", "2:16", "`zsk-lifetime` has no effect with a single key"),
            ("nsec3-opt-out = true", "2:17", "`nsec3-opt-out` has no effect without `nsec3 = true`"),
            ("nsec3-iterations = 1", "2:20", "without `nsec3 = true`"),
            ("nsec3-salt = \"8d\"", "2:14", "without `nsec3 = true`"),
            ("nsec3 = true\nnsec3-iterations = 51", "3:20", "51 is out of range: 0 to 50"),
            ("nsec3 = true\nnsec3-salt = \"8d4\"", "3:14", "`8d4` is not hexadecimal"),
            ("signature-validity = \"5d\"", "2:22", "`signature-refresh` (5d) is not shorter than"),
            ("signature-jitter = \"9d\"", "2:20", "`signature-jitter` (9d) is not shorter than"),
            ("zonemd = [\"sha256\"]", "2:11", "`sha256` is not one of"),
            ("zonemd = [\"sha384\", \"sha384\"]", "2:10", "\"sha384\" is here twice"),
            ("zonemd = \"sha384\"", "2:10", "expected true, false, or a list"),
            ("offline-ksk = true", "2:15", "`offline-ksk` needs a KSK and a ZSK"),
            (
                "single-key = false\noffline-ksk = true\nksk-lifetime = \"365d\"",
                "4:16",
                "`ksk-lifetime` does not go together with `offline-ksk`",
            ),
            ("standby-ksk = true", "2:15", "`standby-ksk` has no effect with a single key"),
            ("standby-zsk = true", "2:15", "`standby-zsk` has no effect with a single key"),
            (
                "single-key = false\noffline-ksk = true\nstandby-ksk = true",
                "4:15",
                "`standby-ksk` does not go together with `offline-ksk`",
            ),
            (
                "algorithm = \"rsasha256\"\nsingle-key = false\noffline-ksk = true\nksk-size = 2048",
                "5:12",
                "`ksk-size` has no effect with `offline-ksk`",
            ),
            ("online = \"compat\"", "2:10", "did you mean \"compact\"?"),
            ("online = \"compact\"\nnsec3 = true", "3:9", "`nsec3` does not go together with `online`"),
            ("online = \"minimal\"\nzonemd = true", "3:10", "`zonemd` does not go together with `online`"),
            (
                "online = \"minimal\"\nsingle-key = false\noffline-ksk = true",
                "4:15",
                "`offline-ksk` does not go together with `online`",
            ),
            ("online = \"compact\"\nalgorithm = \"rsasha256\"", "3:13", "an RSA algorithm"),
            ("online-cache = \"1MiB\"", "2:16", "`online-cache` has no effect without `online`"),
            (
                "online-signatures-per-second = 5",
                "2:32",
                "`online-signatures-per-second` has no effect without `online`",
            ),
        ] {
            let fault = read(keys).expect_err(keys);
            assert!(fault.contains(expected) && fault.contains(place), "{keys}: {fault}");
        }
        let long = format!("nsec3 = true\nnsec3-salt = \"{}\"", "ab".repeat(256));
        assert!(read(&long).expect_err("long").contains("the salt has 256 bytes, and 255 are possible"));
    }

    #[test]
    fn a_lifetime_is_longer_than_a_rollover() {
        // 2h5m to publish the key, 9d for signatures to be renewed, 1h5m to retire the old key.
        let zsk = |lifetime: &str| format!("single-key = false\nzsk-lifetime = \"{lifetime}\"");
        let fault = read(&zsk("219h10m")).expect_err("too short");
        assert!(fault.contains("`zsk-lifetime` is 9d3h10m"), "{fault}");
        assert!(fault.contains("takes at least 9d3h10m"), "{fault}");
        assert!(read(&zsk("219h11m")).is_ok());
        // 2h5m to publish the key, 26h for the DS record.
        let ksk = |more: &str| format!("single-key = false\nksk-lifetime = \"{more}\"");
        assert!(read(&ksk("28h5m")).expect_err("too short").contains("takes at least 1d4h5m"));
        assert!(read(&ksk("28h6m")).is_ok());
        // A CSK has both.
        assert!(read("ksk-lifetime = \"28h6m\"").expect_err("too short").contains("takes at least 9d3h10m"));
    }

    #[test]
    fn built_in_policies_cannot_be_changed() {
        for (name, expected) in [
            ("default", "the policy `default` is built in"),
            ("insecure", "the policy `insecure` is built in"),
            ("none", "`none` cannot be the name of a policy"),
        ] {
            let text = format!("[dnssec-policy.{name}]\nnsec3 = true\n");
            let fault = crate::read_text("test", text, Path::new("/")).expect_err(name).to_string();
            assert!(fault.contains(expected) && fault.contains("give the table another name"), "{fault}");
        }
    }
}
