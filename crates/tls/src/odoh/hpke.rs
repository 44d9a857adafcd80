//! HPKE (RFC 9180) in base mode, for one message in each direction at most, with the ciphersuite
//! DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM.
//!
//! rustls has HPKE as well, for Encrypted ClientHello, but without the exporter (§5.3), from which Oblivious
//! DoH derives the key of the response. These are the same primitives, those of aws-lc-rs.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk};
use aws_lc_rs::hmac;

/// Length of a public key and of an encapsulated key, in bytes.
pub(super) const ENCAPSULATED: usize = 32;
/// Length of a private key, and of a seed of one.
pub(super) const SEED: usize = 32;
/// Length of a key of AES-128-GCM.
pub(super) const KEY: usize = 16;
/// Length of the tag of AES-128-GCM.
pub(super) const TAG: usize = 16;
/// Length of a hash.
pub(super) const HASH: usize = 32;

/// Identifiers of the KEM and of the whole ciphersuite, in all that is derived.
const KEM_SUITE: &[u8] = b"KEM\x00\x20";
const SUITE: &[u8] = b"HPKE\x00\x20\x00\x01\x00\x01";
const LABEL: &[u8] = b"HPKE-v1";
/// The mode without a key that both sides have before.
const BASE: u8 = 0;

/// A key that cannot be used, or a ciphertext that was not made with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CryptoFault;

/// The length of what is derived.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-Extract (RFC 5869 §2.2) of these parts together.
pub(super) fn extract(salt: &[u8], parts: &[&[u8]]) -> [u8; HASH] {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, salt));
    parts.iter().for_each(|part| context.update(part));
    let mut hash = [0; HASH];
    hash.copy_from_slice(context.sign().as_ref());
    hash
}

/// HKDF-Expand (RFC 5869 §2.3).
pub(super) fn expand<const N: usize>(key: &[u8; HASH], info: &[&[u8]]) -> [u8; N] {
    let mut out = [0; N];
    let key = Prk::new_less_safe(HKDF_SHA256, key);
    let filled = key.expand(info, Length(N)).and_then(|bytes| bytes.fill(&mut out));
    filled.expect("HKDF derives up to 8,160 bytes");
    out
}

/// LabeledExtract (RFC 9180 §4).
fn labeled_extract(suite: &[u8], salt: &[u8], label: &[u8], secret: &[u8]) -> [u8; HASH] {
    extract(salt, &[LABEL, suite, label, secret])
}

/// LabeledExpand (RFC 9180 §4).
fn labeled_expand<const N: usize>(suite: &[u8], key: &[u8; HASH], label: &[u8], info: &[u8]) -> [u8; N] {
    let length = u16::try_from(N).unwrap_or(u16::MAX).to_be_bytes();
    expand(key, &[&length, LABEL, suite, label, info])
}

/// DeriveKeyPair (RFC 9180 §7.1.3): the private key of a seed.
pub(super) fn derive_private(seed: &[u8]) -> [u8; SEED] {
    let key = labeled_extract(KEM_SUITE, b"", b"dkp_prk", seed);
    labeled_expand(KEM_SUITE, &key, b"sk", b"")
}

/// Returns a private key with its public key.
pub(super) fn key_pair(private: &[u8; SEED]) -> Result<(PrivateKey, [u8; ENCAPSULATED]), CryptoFault> {
    let private = PrivateKey::from_private_key(&X25519, private).map_err(|_| CryptoFault)?;
    let public = private.compute_public_key().map_err(|_| CryptoFault)?;
    let public = public.as_ref().try_into().map_err(|_| CryptoFault)?;
    Ok((private, public))
}

/// The context of one message.
pub(super) struct HpkeContext {
    key: [u8; KEY],
    nonce: [u8; NONCE_LEN],
    exporter: [u8; HASH],
}

impl HpkeContext {
    /// SetupBaseR (RFC 9180 §5.1.1): the context of the receiver with this key pair.
    pub(super) fn receiver(
        (private, public): (&PrivateKey, &[u8; ENCAPSULATED]),
        encapsulated: &[u8; ENCAPSULATED],
        info: &[u8],
    ) -> Result<Self, CryptoFault> {
        let shared = shared_secret(private, encapsulated, (encapsulated, public))?;
        Ok(Self::scheduled(&shared, info))
    }

    /// SetupBaseS (RFC 9180 §5.1.1) with this ephemeral private key: the context of the sender, and the
    /// encapsulated key for the receiver.
    pub(super) fn sender(
        ephemeral: &[u8; SEED],
        receiver: &[u8; ENCAPSULATED],
        info: &[u8],
    ) -> Result<(Self, [u8; ENCAPSULATED]), CryptoFault> {
        let (private, encapsulated) = key_pair(ephemeral)?;
        let shared = shared_secret(&private, receiver, (&encapsulated, receiver))?;
        Ok((Self::scheduled(&shared, info), encapsulated))
    }

    /// KeySchedule (RFC 9180 §5.1) in base mode.
    fn scheduled(shared: &[u8; HASH], info: &[u8]) -> Self {
        let no_psk = labeled_extract(SUITE, b"", b"psk_id_hash", b"");
        let info = labeled_extract(SUITE, b"", b"info_hash", info);
        let context = [&[BASE], &no_psk[..], &info].concat();
        let secret = labeled_extract(SUITE, shared, b"secret", b"");
        HpkeContext {
            key: labeled_expand(SUITE, &secret, b"key", &context),
            nonce: labeled_expand(SUITE, &secret, b"base_nonce", &context),
            exporter: labeled_expand(SUITE, &secret, b"exp", &context),
        }
    }

    /// Returns a secret for another purpose (RFC 9180 §5.3).
    pub(super) fn export(&self, purpose: &[u8]) -> [u8; KEY] {
        labeled_expand(SUITE, &self.exporter, b"sec", purpose)
    }

    /// Encrypts the one message of the context.
    pub(super) fn seal(self, additional: &[u8], plain: Vec<u8>) -> Result<Vec<u8>, CryptoFault> {
        seal(&self.key, self.nonce, additional, plain)
    }

    /// Decrypts the one message of the context.
    pub(super) fn open(self, additional: &[u8], sealed: &[u8]) -> Result<Vec<u8>, CryptoFault> {
        open(&self.key, self.nonce, additional, sealed)
    }
}

/// ExtractAndExpand of what both sides compute (RFC 9180 §4.1). `keys`: the encapsulated key and that of the
/// receiver. A key of a small order, with which the result does not depend on the private key, is a fault
/// (RFC 9180 §7.1.4), which aws-lc reports.
fn shared_secret(
    private: &PrivateKey,
    other: &[u8; ENCAPSULATED],
    keys: (&[u8; ENCAPSULATED], &[u8; ENCAPSULATED]),
) -> Result<[u8; HASH], CryptoFault> {
    let context = [&keys.0[..], keys.1].concat();
    agree(private, UnparsedPublicKey::new(&X25519, other), CryptoFault, |common| {
        let key = labeled_extract(KEM_SUITE, b"", b"eae_prk", common);
        Ok(labeled_expand(KEM_SUITE, &key, b"shared_secret", &context))
    })
}

/// Encrypts with AES-128-GCM. A pair of key and nonce is for one message.
pub(super) fn seal(
    key: &[u8; KEY],
    nonce: [u8; NONCE_LEN],
    additional: &[u8],
    mut plain: Vec<u8>,
) -> Result<Vec<u8>, CryptoFault> {
    let key = UnboundKey::new(&AES_128_GCM, key).map_err(|_| CryptoFault)?;
    let nonce = Nonce::assume_unique_for_key(nonce);
    let sealed = LessSafeKey::new(key).seal_in_place_append_tag(nonce, Aad::from(additional), &mut plain);
    sealed.map_err(|_| CryptoFault)?;
    Ok(plain)
}

/// Decrypts with AES-128-GCM.
pub(super) fn open(
    key: &[u8; KEY],
    nonce: [u8; NONCE_LEN],
    additional: &[u8],
    sealed: &[u8],
) -> Result<Vec<u8>, CryptoFault> {
    let key = UnboundKey::new(&AES_128_GCM, key).map_err(|_| CryptoFault)?;
    let nonce = Nonce::assume_unique_for_key(nonce);
    let mut plain = sealed.to_vec();
    let opened = LessSafeKey::new(key).open_in_place(nonce, Aad::from(additional), &mut plain);
    let length = opened.map_err(|_| CryptoFault)?.len();
    plain.truncate(length);
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::super::tests::bytes;
    use super::*;

    fn array<const N: usize>(text: &str) -> [u8; N] {
        bytes(text).try_into().expect("the length")
    }

    /// The vectors of RFC 9180 §A.1.1.
    #[test]
    fn the_vectors_of_the_rfc_are_met() {
        let info = bytes("4f6465206f6e2061204772656369616e2055726e");
        let receiver =
            derive_private(&bytes("6db9df30aa07dd42ee5e8181afdb977e538f5e1fec8a06223f33f7013e525037"));
        assert_eq!(receiver, array("4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8"));
        let (private, public) = key_pair(&receiver).expect("a key");
        assert_eq!(public, array("3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d"));
        let sender =
            derive_private(&bytes("7268600d403fce431561aef583ee1613527cff655c1343f29812e66706df3234"));
        assert_eq!(sender, array("52c4a758a802cd8b936eceea314432798d5baf2d7e9235dc084ab1b9cfa2f736"));
        let (context, encapsulated) = HpkeContext::sender(&sender, &public, &info).expect("a context");
        assert_eq!(encapsulated, array("37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431"));
        assert_eq!(context.key, array("4531685d41d65f03dc48f6b8302c05b0"));
        assert_eq!(context.nonce, array("56d890e5accaaf011cff4b7d"));
        let exporter = array("45ff1c2e220db587171952c0592d5f5ebe103f1561a2614e38f2ffd47e99e3f8");
        assert_eq!(context.exporter, exporter);
        let exported: [u8; HASH] = labeled_expand(SUITE, &context.exporter, b"sec", b"TestContext");
        assert_eq!(exported, array("e9e43065102c3836401bed8c3c3c75ae46be1639869391d62c61f1ec7af54931"));
        let additional = bytes("436f756e742d30");
        let plain = bytes("4265617574792069732074727574682c20747275746820626561757479");
        let sealed = context.seal(&additional, plain.clone()).expect("sealed");
        assert_eq!(
            sealed,
            bytes(
                "f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a96d8770ac83d07bea87e13c512a"
            )
        );
        let context = || HpkeContext::receiver((&private, &public), &encapsulated, &info).expect("a context");
        assert_eq!(context().exporter, exporter);
        assert_eq!(context().open(&additional, &sealed).expect("opened"), plain);
        assert_eq!(context().open(b"other", &sealed), Err(CryptoFault));
    }

    #[test]
    fn keys_of_a_small_order_are_refused() {
        let (private, public) = key_pair(&[7; SEED]).expect("a key");
        let mut order_1 = [0; ENCAPSULATED];
        assert!(HpkeContext::receiver((&private, &public), &order_1, b"").is_err());
        order_1[0] = 1;
        assert!(HpkeContext::receiver((&private, &public), &order_1, b"").is_err());
        assert!(HpkeContext::sender(&[7; SEED], &order_1, b"").is_err());
    }
}
