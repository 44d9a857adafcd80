//! Signatures over single RRsets: the RDATA of RRSIG (RFC 4034 §3).

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use wire::rdata::MAX_RDATA;
use wire::{Class, LowerName, Serial, Ttl, Type, UnixTime};

use crate::key::ZoneKey;
use crate::key::pair::NoSignature;

/// Longest time from inception to expiration: beyond it, comparing times fails (RFC 4034 §3.1.5).
const MAX_PERIOD: u64 = i32::MAX as u64;

/// When signatures are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignaturePeriod {
    /// The first second.
    pub inception: UnixTime,
    /// The last second, at the latest.
    pub expiration: UnixTime,
    /// By how many seconds signatures may expire earlier. Each RRset has its own share of it, the same one
    /// each time, so that not all signatures of a zone are due at once.
    pub jitter: u32,
}

/// Why signatures with this period would not be valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeriodFault {
    /// The expiration has passed.
    Expired,
    /// The inception is in the future.
    NotYetValid,
    /// The expiration is not after the inception.
    ExpiresFirst,
    /// With the jitter, some signatures would have expired.
    Jitter,
    /// More than 2³¹ seconds.
    TooLong,
}

impl fmt::Display for PeriodFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "the signatures would have expired already",
            Self::NotYetValid => "the signatures would not be valid yet: the inception is in the future",
            Self::ExpiresFirst => "the expiration is not after the inception",
            Self::Jitter => "the jitter is too large: some signatures would have expired already",
            Self::TooLong => "the time from inception to expiration is longer than 68 years",
        })
    }
}
impl std::error::Error for PeriodFault {}

impl SignaturePeriod {
    /// Checks that all signatures are valid at `now`.
    ///
    /// # Errors
    /// [`PeriodFault`].
    pub fn check(&self, now: UnixTime) -> Result<(), PeriodFault> {
        let SignaturePeriod { inception, expiration, jitter } = *self;
        let seconds = expiration.saturating_duration_since(inception).as_secs();
        match () {
            () if expiration <= now => Err(PeriodFault::Expired),
            () if expiration <= inception => Err(PeriodFault::ExpiresFirst),
            () if inception > now => Err(PeriodFault::NotYetValid),
            () if seconds > MAX_PERIOD => Err(PeriodFault::TooLong),
            () if expiration.as_secs().saturating_sub(jitter.into()) <= now.as_secs() => {
                Err(PeriodFault::Jitter)
            }
            () => Ok(()),
        }
    }

    /// Returns the expiration of the signatures over one RRset.
    pub fn expiration_of(&self, owner: LowerName<'_>, rtype: Type) -> Serial {
        let share = match self.jitter {
            0 => 0,
            jitter => {
                let hash = digest(&SHA256, &[owner.as_wire(), &rtype.0.to_be_bytes()].concat());
                let number = hash.as_ref().first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
                number % (u64::from(jitter) + 1)
            }
        };
        UnixTime::from_secs(self.expiration.as_secs().saturating_sub(share)).to_serial()
    }
}

/// An RRset to be signed.
#[derive(Clone, Copy, Debug)]
pub struct UnsignedSet<'a> {
    /// The owner.
    pub owner: LowerName<'a>,
    /// The type.
    pub rtype: Type,
    /// The TTL of all records.
    pub ttl: Ttl,
    /// Each distinct RDATA, in canonical form (RFC 4034 §6.2) and ascending (§6.3).
    pub rdatas: &'a [Vec<u8>],
}

/// An RRset of the zone's name that was signed elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresignedSet {
    /// The line of its first record in a text; 0 if it is not from a text.
    pub line: usize,
    /// The type.
    pub rtype: Type,
    /// The TTL of all records.
    pub ttl: Ttl,
    /// Each distinct RDATA, in canonical form and ascending.
    pub rdatas: Vec<Vec<u8>>,
    /// RDATA of the RRSIG records, each with its line.
    pub sigs: Vec<(usize, Vec<u8>)>,
}

/// Returns the RDATA of the RRSIG record over an RRset of `zone` by `key`.
///
/// # Errors
/// [`NoSignature`].
pub fn sign_rrset(
    zone: LowerName<'_>,
    set: &UnsignedSet<'_>,
    key: &ZoneKey,
    period: &SignaturePeriod,
) -> Result<Vec<u8>, NoSignature> {
    let UnsignedSet { owner, rtype, ttl, rdatas } = *set;
    let size: usize = rdatas.iter().map(|rdata| rdata.len() + owner.len() + 10).sum();
    let mut data = Vec::with_capacity(18 + zone.len() + size);
    // RFC 4034 §3.1.3: neither the root nor a leading asterisk counts.
    let labels = owner.label_count() - usize::from(owner.as_name().is_wildcard());
    data.extend_from_slice(&rtype.0.to_be_bytes());
    data.extend_from_slice(&[key.algorithm().0, labels as u8]);
    data.extend_from_slice(&ttl.to_be_bytes());
    data.extend_from_slice(&period.expiration_of(owner, rtype).0.to_be_bytes());
    data.extend_from_slice(&period.inception.to_serial().0.to_be_bytes());
    data.extend_from_slice(&key.tag().to_be_bytes());
    data.extend_from_slice(zone.as_wire());
    let fields = data.len();
    for rdata in rdatas {
        debug_assert!(rdata.len() <= MAX_RDATA);
        data.extend_from_slice(owner.as_wire());
        data.extend_from_slice(&rtype.0.to_be_bytes());
        data.extend_from_slice(&Class::IN.0.to_be_bytes());
        data.extend_from_slice(&ttl.to_be_bytes());
        data.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
        data.extend_from_slice(rdata);
    }
    let signature = key.sign(&data)?;
    data.truncate(fields);
    data.extend_from_slice(&signature);
    Ok(data)
}
