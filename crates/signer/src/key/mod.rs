//! Keys of zones: [`ZoneKey`] has the private key, its DNSKEY record and the times of its events.
//!
//! | module | holds |
//! |---|---|
//! | [`pair`] | private keys by algorithm: generating, signing |
//! | [`times`] | the times of a key's events |
//! | [`text`] | the text of key files, in the format of BIND |
//! | [`pem`] | keys in PEM, as Knot and OpenSSL write them |
//! | `der` | the binary forms of private keys |
//!
//! No other module has numbers of private keys, and their memory is erased when it is freed.

mod der;
pub mod pair;
pub mod pem;
pub mod text;
pub mod times;

use std::fmt::Write as _;

use wire::rdata::view::{Dnskey, SigAlgorithm};
use wire::text::write_base64;
use wire::{Name, NameBuf, Ttl, UnixTime};
use zeroize::Zeroizing;

use pair::{BadKey, NoSignature, PrivateKey};
use text::PublicText;
use times::{KeyEvent, KeyTimes};

/// Flags of a zone-signing key: Zone Key (RFC 4034 §2.1.1).
const ZSK: u16 = 0x0100;
/// Flags of a key-signing key: Zone Key and SEP (RFC 4034 §2.1.1).
const KSK: u16 = 0x0101;

/// What a key is for, by the SEP bit of its DNSKEY record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRole {
    /// Signs the DNSKEY RRset; the parent's DS refers to it (KSK). Alone it signs all data (CSK).
    KeySigning,
    /// Signs all other data (ZSK).
    ZoneSigning,
}

impl KeyRole {
    fn flags(self) -> u16 {
        match self {
            Self::KeySigning => KSK,
            Self::ZoneSigning => ZSK,
        }
    }
}

/// A key of a zone, with its private part.
#[derive(Debug)]
pub struct ZoneKey {
    zone: NameBuf,
    ttl: Option<Ttl>,
    times: KeyTimes,
    private: PrivateKey,
    /// RDATA of the DNSKEY record.
    dnskey: Vec<u8>,
    tag: u16,
}

impl ZoneKey {
    /// Returns the key of a zone with this role.
    pub fn new(zone: Name<'_>, role: KeyRole, private: PrivateKey, times: KeyTimes) -> ZoneKey {
        let public = private.public_key();
        Self::with_flags(zone.to_lower().into(), role.flags(), public, private, times)
    }

    fn with_flags(
        zone: NameBuf,
        flags: u16,
        public: Vec<u8>,
        private: PrivateKey,
        times: KeyTimes,
    ) -> ZoneKey {
        let head = [&flags.to_be_bytes()[..], &[Dnskey::DNSSEC, private.algorithm().0]].concat();
        let dnskey = [head, public].concat();
        let tag = tag_of(&dnskey);
        ZoneKey { zone, ttl: None, times, private, dnskey, tag }
    }

    /// Joins the two files of a key.
    ///
    /// # Errors
    /// [`BadKey::OtherAlgorithm`] or [`BadKey::OtherPublicKey`] if they do not belong together.
    pub fn join(public: PublicText, private: PrivateKey, times: KeyTimes) -> Result<ZoneKey, BadKey> {
        if public.algorithm != private.algorithm() {
            return Err(BadKey::OtherAlgorithm);
        }
        if public.public_key != private.public_key() {
            return Err(BadKey::OtherPublicKey);
        }
        let zone = public.zone.as_name().to_lower().into();
        let key = Self::with_flags(zone, public.flags, public.public_key, private, times);
        Ok(ZoneKey { ttl: public.ttl, ..key })
    }

    /// Returns the key with this TTL of its DNSKEY record.
    pub fn with_ttl(self, ttl: Option<Ttl>) -> ZoneKey {
        ZoneKey { ttl, ..self }
    }

    /// Returns the zone, in lower case.
    pub fn zone(&self) -> Name<'_> {
        self.zone.as_name()
    }

    /// Returns the TTL of the DNSKEY record, if the key's file has one.
    pub fn ttl(&self) -> Option<Ttl> {
        self.ttl
    }

    /// Returns the times of the key's events.
    pub fn times(&self) -> &KeyTimes {
        &self.times
    }

    /// Returns the algorithm.
    pub fn algorithm(&self) -> SigAlgorithm {
        self.private.algorithm()
    }

    /// Returns the size of the key in bits.
    pub fn bits(&self) -> usize {
        self.private.bits()
    }

    /// Returns the RDATA of the DNSKEY record.
    pub fn dnskey(&self) -> &[u8] {
        &self.dnskey
    }

    /// Returns the key tag (RFC 4034 appendix B).
    pub fn tag(&self) -> u16 {
        self.tag
    }

    /// Returns the role, by the SEP bit.
    pub fn role(&self) -> KeyRole {
        if self.flags() & KSK == KSK { KeyRole::KeySigning } else { KeyRole::ZoneSigning }
    }

    /// Whether the Zone Key bit is set: without it the key may not sign zones (RFC 4034 §2.1.1).
    pub fn is_zone_key(&self) -> bool {
        self.flags() & ZSK == ZSK
    }

    /// Whether the REVOKE bit is set (RFC 5011 §2.1).
    pub fn is_revoked(&self) -> bool {
        self.flags() & Dnskey::REVOKE != 0
    }

    fn flags(&self) -> u16 {
        self.dnskey.first_chunk().map_or(0, |flags| u16::from_be_bytes(*flags))
    }

    /// Returns the key as it is at `now`: with the REVOKE bit and the tag that it then has, if the time of
    /// its revocation has come.
    pub fn as_of(self, now: UnixTime) -> ZoneKey {
        if !self.times.has_come(KeyEvent::Revoke, now) {
            return self;
        }
        self.revoked()
    }

    /// Returns the key with the REVOKE bit, and so with another tag (RFC 5011 §2.1).
    pub fn revoked(mut self) -> ZoneKey {
        let flags = self.flags() | Dnskey::REVOKE;
        if let Some(to) = self.dnskey.first_chunk_mut() {
            *to = flags.to_be_bytes();
        }
        self.tag = tag_of(&self.dnskey);
        self
    }

    /// Returns the tags that the key has without and with the REVOKE bit.
    pub fn tags(&self) -> [u16; 2] {
        let with = |flags: u16| tag_of(&[&flags.to_be_bytes(), &self.dnskey[2..]].concat());
        [with(self.flags() & !Dnskey::REVOKE), with(self.flags() | Dnskey::REVOKE)]
    }

    /// Returns the RDATA of a DS record; `None` if the digest type is not supported.
    pub fn ds(&self, digest_type: u8) -> Option<Vec<u8>> {
        dnssec::key::ds(self.zone(), &Dnskey::read(&self.dnskey).ok()?, digest_type)
    }

    /// Signs bytes; see [`PrivateKey::sign`].
    ///
    /// # Errors
    /// [`NoSignature`].
    pub fn sign(&self, bytes: &[u8]) -> Result<Vec<u8>, NoSignature> {
        self.private.sign(bytes)
    }

    /// Returns the names of the key's files without `.key` and `.private`, as BIND makes them:
    /// `Kexample.com.+013+12345`.
    pub fn file_stem(&self) -> String {
        file_stem(self.zone(), self.algorithm(), self.tag)
    }

    /// Returns the text of the `.private` file.
    ///
    /// # Errors
    /// The library does not yield the numbers of the key.
    pub fn private_text(&self) -> Result<Zeroizing<String>, BadKey> {
        text::private_text(&self.private, &self.times)
    }

    /// Returns the text of the `.key` file.
    pub fn public_text(&self) -> String {
        let role = match self.role() {
            KeyRole::KeySigning => "key-signing",
            KeyRole::ZoneSigning => "zone-signing",
        };
        let mut out = format!("; This is a {role} key, keyid {}, for {}\n", self.tag, self.zone());
        for event in KeyEvent::ALL {
            if let Some(time) = self.times.get(event) {
                let _ = write!(out, "; {}: ", event.field());
                // Writing to a String cannot fail.
                let _ = wire::text::write_time(time.to_serial().0, &mut out);
                out.push('\n');
            }
        }
        let ttl = self.ttl.map_or_else(String::new, |ttl| format!(" {ttl}"));
        write_record(&mut out, self.zone(), &ttl, &self.dnskey);
        out
    }
}

/// Writes a DNSKEY record; `ttl` begins with a blank, or is empty.
fn write_record(out: &mut String, zone: Name<'_>, ttl: &str, dnskey: &[u8]) {
    // Writing to a String cannot fail.
    let _ = write!(out, "{zone}{ttl} IN DNSKEY ");
    if let Ok(key) = Dnskey::read(dnskey) {
        let _ = write!(out, "{} {} {} ", key.flags, key.protocol, key.algorithm.0);
        let _ = write_base64(key.public_key, out);
    }
    out.push('\n');
}

/// Returns the text of the `.key` file of a key whose private part is elsewhere.
pub(crate) fn public_record(zone: Name<'_>, dnskey: &[u8], ttl: Ttl) -> String {
    let mut out = "; The private part of this key is not on this machine.\n".to_owned();
    write_record(&mut out, zone, &format!(" {ttl}"), dnskey);
    out
}

/// Returns the names of a key's files without `.key` and `.private`.
pub(crate) fn file_stem(zone: Name<'_>, algorithm: SigAlgorithm, tag: u16) -> String {
    format!("{}{:03}+{tag:05}", file_prefix(zone), algorithm.0)
}

fn tag_of(dnskey: &[u8]) -> u16 {
    Dnskey::read(dnskey).map_or(0, |key| dnssec::key::tag(&key))
}

/// Returns the beginning of the names of the files of a zone's keys.
pub(crate) fn file_prefix(zone: Name<'_>) -> String {
    format!("K{}+", file_name(zone))
}

/// Returns a name as BIND has it in names of files: other bytes than letters, digits, `-` and `_` as `%XX`.
pub(crate) fn file_name(zone: Name<'_>) -> String {
    let mut out = String::new();
    for label in zone.labels() {
        for &byte in label {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => {
                    out.push(char::from(byte.to_ascii_lowercase()));
                }
                // Writing to a String cannot fail.
                _ => _ = write!(out, "%{byte:02X}"),
            }
        }
        out.push('.');
    }
    if out.is_empty() { ".".into() } else { out }
}

#[cfg(test)]
mod tests;
