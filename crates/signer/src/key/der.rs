//! The few forms of ASN.1 DER that private keys have: PKCS#1 (RFC 8017 §A.1.2), PKCS#8 (RFC 5958 §2) and EC
//! private keys (RFC 5915 §3).

use zeroize::Zeroizing;

const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const OBJECT: u8 = 0x06;
const SEQUENCE: u8 = 0x30;

/// Object identifier of RSA keys: 1.2.840.113549.1.1.1.
pub(super) const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
/// Object identifier of keys on elliptic curves: 1.2.840.10045.2.1.
pub(super) const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
/// Object identifier of the curve P-256: 1.2.840.10045.3.1.7.
pub(super) const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
/// Object identifier of the curve P-384: 1.3.132.0.34.
pub(super) const P384: &[u8] = &[0x2b, 0x81, 4, 0, 34];
/// Object identifier of Ed25519: 1.3.101.112.
pub(super) const ED25519: &[u8] = &[0x2b, 0x65, 112];
/// Object identifier of Ed448: 1.3.101.113.
pub(super) const ED448: &[u8] = &[0x2b, 0x65, 113];

/// Reads the value with this tag at the start of `der`, and moves `der` behind it.
fn value<'d>(der: &mut &'d [u8], tag: u8) -> Option<&'d [u8]> {
    let (head, len) = match **der {
        [t, len @ 0..=0x7f, ..] if t == tag => (2, usize::from(len)),
        [t, 0x81, len, ..] if t == tag => (3, usize::from(len)),
        [t, 0x82, high, low, ..] if t == tag => (4, usize::from(u16::from_be_bytes([high, low]))),
        _ => return None,
    };
    let (value, rest) = der.get(head..)?.split_at_checked(len)?;
    *der = rest;
    Some(value)
}

/// Reads a positive integer, without the zeros in front.
fn integer<'d>(der: &mut &'d [u8]) -> Option<&'d [u8]> {
    let bytes = value(der, INTEGER)?;
    Some(without_zeros(bytes))
}

/// Returns a number without the zeros in front.
pub(super) fn without_zeros(number: &[u8]) -> &[u8] {
    &number[number.iter().position(|&byte| byte != 0).unwrap_or(number.len())..]
}

/// Returns the object identifiers of the algorithm and of its parameters, empty if it has none, and the
/// private key of a PKCS#8 document.
pub(super) fn pkcs8(mut der: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let mut document = value(&mut der, SEQUENCE)?;
    integer(&mut document)?;
    let mut algorithm = value(&mut document, SEQUENCE)?;
    let object = value(&mut algorithm, OBJECT)?;
    let parameters = value(&mut algorithm, OBJECT).unwrap_or_default();
    Some((object, parameters, value(&mut document, OCTET_STRING)?))
}

/// Returns modulus and exponent of an RSAPublicKey, or the eight numbers of an RSAPrivateKey (RFC 8017
/// §A.1.2) in the order n, e, d, p, q, d mod (p-1), d mod (q-1), 1/q mod p.
pub(super) fn rsa_public(mut der: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut numbers = value(&mut der, SEQUENCE)?;
    Some((integer(&mut numbers)?, integer(&mut numbers)?))
}

/// See [`rsa_public`].
pub(super) fn rsa_private(mut der: &[u8]) -> Option<[&[u8]; 8]> {
    let mut numbers = value(&mut der, SEQUENCE)?;
    integer(&mut numbers)?;
    let mut out = [&[][..]; 8];
    for number in &mut out {
        *number = integer(&mut numbers)?;
    }
    Some(out)
}

/// Appends the tag and the length of a value.
fn head(tag: u8, len: usize, out: &mut Vec<u8>) {
    match len {
        0..0x80 => out.extend([tag, len as u8]),
        0x80..0x100 => out.extend([tag, 0x81, len as u8]),
        _ => out.extend([tag, 0x82, (len >> 8) as u8, len as u8]),
    }
}

/// Number of bytes of a tag and a length at most.
const MAX_HEAD: usize = 4;

/// Returns the RSAPrivateKey of these numbers; see [`rsa_public`].
pub(super) fn rsa_document(numbers: &[&[u8]; 8]) -> Zeroizing<Vec<u8>> {
    let most: usize = numbers.iter().map(|number| number.len() + 1 + MAX_HEAD).sum();
    // Their memory is erased, so it must not be moved by growing.
    let mut inner = Zeroizing::new(Vec::with_capacity(most + 3));
    inner.extend([INTEGER, 1, 0]);
    for number in numbers {
        let number = without_zeros(number);
        let sign = number.first().is_none_or(|&byte| byte >= 0x80);
        head(INTEGER, number.len() + usize::from(sign), &mut inner);
        inner.extend(sign.then_some(0));
        inner.extend_from_slice(number);
    }
    sequence(&inner)
}

/// Returns the ECPrivateKey of this number, without its public key.
pub(super) fn ec_document(number: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut inner = Zeroizing::new(Vec::with_capacity(number.len() + 3 + MAX_HEAD));
    inner.extend([INTEGER, 1, 1]);
    head(OCTET_STRING, number.len(), &mut inner);
    inner.extend_from_slice(number);
    sequence(&inner)
}

fn sequence(inner: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut out = Zeroizing::new(Vec::with_capacity(inner.len() + MAX_HEAD));
    head(SEQUENCE, inner.len(), &mut out);
    out.extend_from_slice(inner);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_rsa_come_back() {
        let numbers: [Vec<u8>; 8] = std::array::from_fn(|i| vec![0x7f + i as u8; 1 + i * 60]);
        let slices = numbers.each_ref().map(Vec::as_slice);
        let document = rsa_document(&slices);
        assert_eq!(rsa_private(&document), Some(slices));
        for cut in 0..document.len() {
            assert_eq!(rsa_private(&document[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn zeros_in_front_do_not_count() {
        assert_eq!(without_zeros(&[0, 0, 1, 0]), [1, 0]);
        assert_eq!(without_zeros(&[0]), []);
        let padded = rsa_document(&[&[0, 0, 5]; 8]);
        assert_eq!(rsa_private(&padded), Some([&[5][..]; 8]));
    }
}
