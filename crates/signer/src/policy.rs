//! [`DnssecPolicy`]: how the keys and signatures of a zone are maintained, as the operator configures it.

use std::time::Duration;

use wire::Ttl;
use wire::rdata::view::SigAlgorithm;
use zone::zonemd::ZonemdHash;

use crate::denial::DenialMethod;

/// What the policy wants a zone to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SigningGoal {
    /// Signed, with a DS record at the parent.
    #[default]
    Signed,
    /// Unsigned: the DS record goes first, then the signatures and keys, each once no cache needs it any
    /// more.
    Insecure,
}

/// Which kinds of keys a zone has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyLayout {
    /// One key that signs everything (CSK).
    #[default]
    Combined,
    /// A KSK that signs the DNSKEY RRset, and a ZSK that signs all others.
    Split,
}

/// The algorithm of new keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyAlgorithm {
    /// The algorithm.
    pub algorithm: SigAlgorithm,
    /// Bits of the modulus of RSA keys; 0 for other algorithms, which have one size.
    pub bits: usize,
}

/// How the keys and signatures of a zone are maintained. The default is that of the policy `default`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnssecPolicy {
    /// Its name in the configuration.
    pub name: String,
    /// What the zone becomes.
    pub goal: SigningGoal,
    /// The keys that the zone has.
    pub layout: KeyLayout,
    /// The algorithm of KSKs and CSKs, and of ZSKs: always the same algorithm, of RSA maybe of other sizes.
    pub ksk: KeyAlgorithm,
    /// See [`ksk`](Self::ksk).
    pub zsk: KeyAlgorithm,
    /// Time from the first use of a KSK or CSK to the start of the next; `None`: it is rolled on request
    /// only.
    pub ksk_lifetime: Option<Duration>,
    /// The same of ZSKs.
    pub zsk_lifetime: Option<Duration>,
    /// Whether a second KSK is kept for emergencies: its DNSKEY and DS records are there, and it signs
    /// nothing. Without effect on CSKs.
    pub standby_ksk: bool,
    /// Whether a second ZSK is kept for emergencies: its DNSKEY record is there, and it signs nothing.
    pub standby_zsk: bool,
    /// How the zone proves what does not exist.
    pub denial: DenialMethod,
    /// Most signatures a second for the answers of each zone that is signed while answering.
    pub online_rate: u32,
    /// Most bytes of signatures that are cached for the answers of such a zone.
    pub online_cache: usize,
    /// How long new signatures are valid.
    pub signature_validity: Duration,
    /// How long before its expiration a signature is renewed.
    pub signature_refresh: Duration,
    /// By how much signatures may expire earlier, each RRset by another share of it.
    pub signature_jitter: Duration,
    /// How long before now signatures begin to be valid, for validators whose clocks are behind.
    pub inception_offset: Duration,
    /// TTL of DNSKEY, CDS and CDNSKEY records.
    pub dnskey_ttl: Ttl,
    /// Time added to each wait before a new record is relied on, and before an old one is removed.
    pub publish_safety: Duration,
    /// See [`publish_safety`](Self::publish_safety).
    pub retire_safety: Duration,
    /// Longest time until all servers of the zone have a new version.
    pub zone_propagation_delay: Duration,
    /// Longest time until all servers of the parent have a new version.
    pub parent_propagation_delay: Duration,
    /// TTL of the DS record at the parent, if that is not known from the parent itself.
    pub parent_ds_ttl: Ttl,
    /// How long the files of a removed key are kept; `None`: for ever.
    pub purge_keys: Option<Duration>,
    /// The private KSK is not on the server: the DNSKEY, CDS and CDNSKEY RRsets are signed elsewhere.
    pub offline_ksk: bool,
    /// Whether the zone has CDS and CDNSKEY records (RFC 7344).
    pub sync: bool,
    /// Whether the zone has a CSYNC record (RFC 7477).
    pub csync: bool,
    /// Digests of the zone (RFC 8976).
    pub zonemd: Vec<ZonemdHash>,
}

/// Seconds of a day.
const DAY: u64 = 86_400;

impl Default for DnssecPolicy {
    fn default() -> Self {
        let ecdsa = KeyAlgorithm { algorithm: SigAlgorithm::ECDSAP256SHA256, bits: 0 };
        DnssecPolicy {
            name: "default".into(),
            goal: SigningGoal::Signed,
            layout: KeyLayout::Combined,
            ksk: ecdsa,
            zsk: ecdsa,
            ksk_lifetime: None,
            zsk_lifetime: None,
            standby_ksk: false,
            standby_zsk: false,
            denial: DenialMethod::Nsec,
            online_rate: 10_000,
            online_cache: 4 << 20,
            signature_validity: Duration::from_secs(14 * DAY),
            signature_refresh: Duration::from_secs(5 * DAY),
            signature_jitter: Duration::from_secs(DAY / 2),
            inception_offset: Duration::from_secs(3_600),
            dnskey_ttl: Ttl::from_secs(3_600),
            publish_safety: Duration::from_secs(3_600),
            retire_safety: Duration::from_secs(3_600),
            zone_propagation_delay: Duration::from_secs(300),
            parent_propagation_delay: Duration::from_secs(3_600),
            parent_ds_ttl: Ttl::from_secs(DAY as u32),
            purge_keys: Some(Duration::from_secs(90 * DAY)),
            offline_ksk: false,
            sync: true,
            csync: false,
            zonemd: Vec::new(),
        }
    }
}
