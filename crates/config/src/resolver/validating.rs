//! Keys of `[resolver]` about validating answers (DNSSEC): the trust anchors, and the limits.

use std::collections::BTreeSet;
use std::fmt;

use recursion::{LocalRecord, LocalRecordFault, SpecialName, ValidationConfig};
use toml::Spanned;
use toml::de::DeValue;
use validator::{AnchorFault, TrustAnchors, ValidationLimits, ValidationSettings};
use wire::{Name, NameBuf, Ttl, Type};

use super::files::AnchorFile;
use crate::report::{ConfigPlace, Diagnostic};
use crate::table::keys;
use crate::table::read::{At, Reader};
use crate::table::value::{Int, Seconds, Value, Word, quote};
use crate::threads::WorkerCount;

keys! {
    /// Keys about validating answers.
    pub struct Validating {
        /// Validate answers of other servers (DNSSEC, RFC 4035): bogus ones become SERVFAIL, so that no
        /// client gets forged data. Answers proven unsigned are passed on. `validate` of a rule overrides
        /// this for its names.
        live "validate" validate: bool = true, example false;
        /// Trust anchors: DS or DNSKEY records, each written as a line of a zone file. Unset: the keys of the
        /// public root, with the tags 20326 and 38696. For a private root, list its keys here, or turn
        /// `validate` off. A revoked anchor, or one of an unsupported algorithm, is left out with a warning
        /// if its zone has another. With an empty list all answers count as unsigned.
        live "trust-anchors" anchors: Option<Vec<At<Anchor>>> = None,
            example [". DS 20326 8 2 E06D44B80B8F1D39A95C0B0D7C65D08458E880409BBC683457104237C7F8EC8D"];
        /// Files with further trust anchors, as in `trust-anchors`. They are read again at a reload.
        live "trust-anchor-files" anchor_files: Option<Vec<At<AnchorFile>>> = None,
            example ["/etc/nomen/root.key"];
        /// Trust anchors that follow the key rollovers of their zones (RFC 5011): "built-in": those of the
        /// public root, if no others are configured; "all": the configured ones, too; "off": none. A new key
        /// becomes an anchor after the old ones have signed it for 30 days; a key that revokes itself stops
        /// being one. The state is stored in `state-dir`; without that no anchor follows rollovers.
        live "trust-anchor-rollover" rollover: Rollover = Rollover::BuiltIn, example "all";
        /// Signal to the servers of zones with followed anchors which keys are anchors here, by a query for a
        /// name such as `_ta-4f66-9728` (RFC 8145 §5).
        live "signal-trust-anchors" signals: bool = false, example true;
        /// Let clients find out whether a key is an anchor of the root (RFC 8509):
        /// `root-key-sentinel-is-ta-TAG` gets SERVFAIL if it is not, `root-key-sentinel-not-ta-TAG` if it is.
        live "root-key-sentinel" sentinel: bool = true, example false;
        /// Domains in which nothing is validated (RFC 7646), because their signatures are broken or because
        /// they are private and not delegated in the public DNS. `nomen ctl nta` sets such anchors for a
        /// limited time.
        live "negative-trust-anchors" negative: Option<Vec<At<NameBuf>>> = None, example ["corp.example"];
        /// Tolerated clock difference: signatures are valid this long before their inception and after their
        /// expiration.
        live "signature-skew" skew: Seconds<0, 86_400> = Seconds(60), example "5m";
        /// Time that bogus answers, and zones with bogus keys, are cached as such.
        live "bogus-ttl" bogus_ttl: Seconds<1, 300> = Seconds(60), example "10s";
        /// Accept RSA signatures over SHA-1 (algorithms 5 and 7). Otherwise zones with no other algorithm
        /// count as unsigned (RFC 9905 §2). Such signatures can be forged: set this only while a zone that
        /// you depend on has no better ones.
        live "sha1-signatures" sha1_signatures: bool = false, example true;
        /// Most NSEC3 iterations that are validated; with more, denials of the zone count as unsigned (RFC
        /// 9276 §3.2).
        live "max-nsec3-iterations" iterations: Int<u16, 0, 500> = Int(50), example 100;
        /// Most signatures verified for one client query, aliases included.
        live "validate-signatures" signatures: Int<u32, 1, 1000> = Int(48), example 32;
        /// Most signatures of one client query that may fail to verify.
        live "validate-failures" failures: Int<u32, 1, 1000> = Int(4), example 8;
        /// Most blocks of 64 bytes hashed for NSEC3 for one client query. Eight names at 50 iterations take
        /// about 410. With `aggressive-nsec`, a search of cached records for a denial has the same limit.
        live "validate-hashes" hashes: Int<u32, 1, 100_000> = Int(450), example 1000;
        /// Most queries for DS and DNSKEY for one client query.
        live "validate-fetches" fetches: Int<u32, 1, 1000> = Int(64), example 40;
        /// Most clients whose answers wait for validation, of one network at most `clients-per-network`;
        /// further ones get SERVFAIL, or an expired answer.
        live "validations" waiting: Int<usize, 1, 1_000_000> = Int(10_000), example 5000;
        /// Threads that verify signatures; "auto" is one for each CPU the process may use. Cached answers do
        /// not need them.
        restart "validate-threads" threads: WorkerCount = WorkerCount::Auto, example 2;
        /// Most names whose keys, or whose lack of keys, are cached.
        live "known-keys" names: Int<usize, 100, 10_000_000> = Int(20_000), example 100000;
    }
}

/// Which trust anchors are followed (RFC 5011).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rollover {
    /// None.
    Off,
    /// The built-in ones.
    BuiltIn,
    /// All.
    All,
}

impl Word for Rollover {
    const WORDS: &'static [(&'static str, Self)] =
        &[("off", Self::Off), ("built-in", Self::BuiltIn), ("all", Self::All)];
}

/// A trust anchor as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anchor {
    text: String,
    record: LocalRecord,
    /// File, line and column, if it is from a file of anchors.
    at: Option<String>,
    /// Why it cannot be used for validation.
    unusable: Option<AnchorFault>,
}

/// What is wrong with the text of an [`Anchor`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnchorLineFault {
    /// It is not a record.
    Record(LocalRecordFault),
    /// A record of this type is not a trust anchor.
    Type(Type),
    /// It cannot be used for validation.
    Anchor(AnchorFault),
}

impl fmt::Display for AnchorLineFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record(fault) => fault.fmt(f),
            Self::Type(rtype) => write!(f, "{rtype} is no trust anchor: write a DS or a DNSKEY"),
            Self::Anchor(fault) => fault.fmt(f),
        }
    }
}

impl Anchor {
    /// Parses a line.
    ///
    /// # Errors
    /// [`AnchorLineFault`].
    pub fn parse(text: &str) -> Result<Self, AnchorLineFault> {
        let record = LocalRecord::parse(text).map_err(AnchorLineFault::Record)?;
        Anchor { text: text.to_owned(), record, at: None, unusable: None }.tried()
    }

    /// Returns the anchor of a record read from a file, at this line and column.
    ///
    /// # Errors
    /// [`AnchorLineFault`].
    pub(super) fn of_record(
        owner: Name<'_>,
        rtype: Type,
        rdata: &[u8],
        at: String,
    ) -> Result<Self, AnchorLineFault> {
        let record = LocalRecord { owner: owner.to_buf(), rtype, ttl: Ttl::ZERO, rdata: rdata.to_vec() };
        Anchor { text: String::new(), record, at: Some(at), unusable: None }.tried()
    }

    /// Checks whether the anchor can be used; fails if it is not a DS or DNSKEY at all.
    fn tried(self) -> Result<Self, AnchorLineFault> {
        let unusable = match self.add_to(&mut TrustAnchors::none()) {
            Ok(()) => None,
            Err(AnchorLineFault::Anchor(fault @ (AnchorFault::Unsupported | AnchorFault::NotAZoneKey))) => {
                Some(fault)
            }
            Err(fault) => return Err(fault),
        };
        Ok(Anchor { unusable, ..self })
    }

    /// Returns why it cannot be used, and where it is written.
    fn fault(&self) -> Option<String> {
        let fault = self.unusable?;
        Some(self.at.as_ref().map_or_else(|| fault.to_string(), |at| format!("{at}: {fault}")))
    }

    fn add_to(&self, anchors: &mut TrustAnchors) -> Result<(), AnchorLineFault> {
        let LocalRecord { owner, rtype, rdata, .. } = &self.record;
        match *rtype {
            Type::DS => anchors.add_ds(owner.as_name(), rdata).map_err(AnchorLineFault::Anchor),
            Type::DNSKEY => anchors.add_dnskey(owner.as_name(), rdata).map_err(AnchorLineFault::Anchor),
            rtype => Err(AnchorLineFault::Type(rtype)),
        }
    }
}

impl Value for Anchor {
    fn kind() -> String {
        "record `name DS data` or `name DNSKEY data`".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "a record such as \". DS 20326 8 2 E06D…\"", Anchor::parse)
    }
    fn render(&self) -> Option<String> {
        Some(quote(&self.text))
    }
    const MAY_BE_NONE: bool = true;
}

/// A domain for private use, which the public root denies like most special-use names.
const INTERNAL: &[u8] = b"\x08internal\x00";

/// Returns whether the public DNS has no data or wrong data for a domain, so that no chain of trust leads to
/// it.
pub fn is_private(domain: Name<'_>) -> bool {
    let is_internal = Name::from_wire(INTERNAL).is_ok_and(|internal| domain.is_at_or_below(internal));
    is_internal || SpecialName::above(domain).is_some()
}

impl Validating {
    /// Returns whether names are validated under a rule without a setting of its own.
    pub(super) fn validates(&self, domain: Name<'_>) -> bool {
        *self.validate && !is_private(domain)
    }

    /// Returns whether no trust anchors are configured.
    fn are_built_in(&self) -> bool {
        self.anchors.value.is_none() && self.anchor_files.value.is_none()
    }

    /// Returns the configured trust anchors.
    fn named(&self) -> impl Iterator<Item = &Anchor> {
        self.placed().map(|(anchor, _)| anchor)
    }

    /// Returns the configured trust anchors, each with the place of its line or its file.
    fn placed(&self) -> impl Iterator<Item = (&Anchor, Option<&ConfigPlace>)> {
        let lines = self.anchors.value.iter().flatten().map(|line| (&line.value, line.place.as_ref()));
        let files = self.anchor_files.value.iter().flatten();
        lines.chain(files.flat_map(|file| file.read.iter().map(|anchor| (anchor, file.place.as_ref()))))
    }

    /// Returns the zones with a usable trust anchor.
    fn anchored(&self) -> BTreeSet<NameBuf> {
        let usable = self.named().filter(|anchor| anchor.unusable.is_none());
        usable.map(|anchor| anchor.record.owner).collect()
    }

    pub(super) fn check(&self, faults: &mut Vec<Diagnostic>) {
        // A file that is not read yet may have another anchor.
        if self.anchor_files.value.is_none() {
            faults.extend(self.zones_without_anchor());
        }
    }

    /// Reports unusable anchors of zones that have no other.
    pub(super) fn zones_without_anchor(&self) -> Vec<Diagnostic> {
        let anchored = self.anchored();
        let alone = self.placed().filter(|(anchor, _)| !anchored.contains(&anchor.record.owner));
        alone.filter_map(|(anchor, place)| Some(Diagnostic::at(place, anchor.fault()?))).collect()
    }

    /// Returns notes for the operator on the configured anchors, one sentence each.
    pub(super) fn notes(&self) -> Vec<String> {
        let unusable = self.named().filter_map(|anchor| Some((anchor, anchor.fault()?)));
        let left_out = unusable.map(|(anchor, fault)| {
            let named = if anchor.text.is_empty() { String::new() } else { format!(" `{}`", anchor.text) };
            let zone = anchor.record.owner;
            format!("a trust anchor of {zone}{named} is not used, others of that zone are: {fault}")
        });
        let none = *self.validate && !self.are_built_in() && self.named().next().is_none();
        let none = none.then(|| {
            "no answer counts as signed: `trust-anchors` is empty; without the key, the anchors of the \
            public root count"
                .to_owned()
        });
        left_out.chain(none).collect()
    }

    /// Returns the zones whose trust anchors are followed.
    pub(super) fn followed(&self) -> BTreeSet<NameBuf> {
        match *self.rollover {
            Rollover::BuiltIn | Rollover::All if self.are_built_in() => BTreeSet::from([NameBuf::ROOT]),
            Rollover::All => self.named().map(|anchor| anchor.record.owner).collect(),
            Rollover::Off | Rollover::BuiltIn => BTreeSet::new(),
        }
    }

    /// Returns the validation settings; `per_network`: the number of clients of one network that may wait.
    pub(super) fn config(&self, per_network: usize) -> ValidationConfig {
        let mut anchors = match self.are_built_in() {
            true => TrustAnchors::root(),
            false => self.named().fold(TrustAnchors::none(), |mut anchors, line| {
                // Unusable anchors are left out.
                let _ = line.add_to(&mut anchors);
                anchors
            }),
        };
        self.negative.iter().flatten().for_each(|name| anchors.add_negative(name.as_name()));
        ValidationConfig {
            settings: ValidationSettings {
                skew: self.skew.0,
                sha1_signatures: *self.sha1_signatures,
                max_nsec3_iterations: self.iterations.0,
                bogus_ttl: Ttl::from_secs(self.bogus_ttl.0),
                ..ValidationSettings::default()
            },
            limits: ValidationLimits {
                signatures: self.signatures.0,
                failures: self.failures.0,
                nsec3_hashes: self.hashes.0,
                fetches: self.fetches.0,
                ..ValidationLimits::default()
            },
            anchors,
            sentinel: *self.sentinel,
            names: self.names.0,
            waiting: self.waiting.0,
            waiting_of_network: per_network,
        }
    }
}
