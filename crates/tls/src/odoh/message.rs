//! The formats of Oblivious DoH (RFC 9230 §6.1 and §8), without cryptography: messages, what is encrypted in
//! them, and the configurations of a target. Lengths are exact: bytes behind a structure are a fault.

/// Most bytes of a part with a length prefix.
const MAX_PART: usize = u16::MAX as usize;
/// The version of a configuration (RFC 9230 §5).
const VERSION: u16 = 1;
/// DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and AES-128-GCM (RFC 9180 §7), the one ciphersuite in use.
const SUITE: [u8; 6] = [0, 0x20, 0, 1, 0, 1];
/// Length of a public key, in bytes.
pub(crate) const PUBLIC_KEY: usize = 32;
/// Length of the contents of a configuration with a public key of that length.
pub(crate) const CONTENTS: usize = SUITE.len() + 2 + PUBLIC_KEY;

/// Which direction a message goes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Direction {
    /// From the client to the target.
    Query = 1,
    /// From the target to the client.
    Response = 2,
}

/// Bytes that do not have the format of their structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadFormat;

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message<'m> {
    pub(crate) direction: Direction,
    /// In a query the identifier of the target's key; in a response a random nonce.
    pub(crate) key_id: &'m [u8],
    /// What is encrypted: at least one byte.
    pub(crate) encrypted: &'m [u8],
}

impl<'m> Message<'m> {
    /// Reads a message.
    pub(crate) fn read(bytes: &'m [u8]) -> Result<Self, BadFormat> {
        let (&direction, rest) = bytes.split_first().ok_or(BadFormat)?;
        let direction = match direction {
            1 => Direction::Query,
            2 => Direction::Response,
            _ => return Err(BadFormat),
        };
        let (key_id, rest) = part(rest)?;
        let (encrypted, rest) = part(rest)?;
        match encrypted.is_empty() || !rest.is_empty() {
            true => Err(BadFormat),
            false => Ok(Message { direction, key_id, encrypted }),
        }
    }

    /// Returns the bytes of the message; `None` if a part is too long.
    pub(crate) fn write(&self) -> Option<Vec<u8>> {
        let mut bytes = additional_data(self.direction, self.key_id)?;
        put_part(&mut bytes, self.encrypted)?;
        Some(bytes)
    }
}

/// Returns what is authenticated beside the encrypted part: the beginning of the message.
pub(crate) fn additional_data(direction: Direction, key_id: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = vec![direction as u8];
    put_part(&mut bytes, key_id)?;
    Some(bytes)
}

/// Returns the DNS message in what was encrypted. The padding behind it has only zeros (RFC 9230 §6.2).
pub(crate) fn dns_message(plain: &[u8]) -> Result<&[u8], BadFormat> {
    let (message, rest) = part(plain)?;
    let (padding, rest) = part(rest)?;
    let is_good = !message.is_empty() && rest.is_empty() && padding.iter().all(|&byte| byte == 0);
    if is_good { Ok(message) } else { Err(BadFormat) }
}

/// Returns what is encrypted for a DNS message, padded to a multiple of `block` bytes, or as far as `most`
/// bytes in all allow; `None` if the message alone has more.
pub(crate) fn padded(message: &[u8], block: usize, most: usize) -> Option<Vec<u8>> {
    let most = most.checked_sub(4)?;
    if message.is_empty() || message.len() > most.min(MAX_PART) {
        return None;
    }
    let padding = message.len().next_multiple_of(block).min(most) - message.len();
    let mut plain = Vec::with_capacity(4 + message.len() + padding);
    put_part(&mut plain, message)?;
    put_part(&mut plain, &vec![0; padding])?;
    Some(plain)
}

/// Returns the contents of the configuration with a public key.
pub(crate) fn contents(public: &[u8; PUBLIC_KEY]) -> [u8; CONTENTS] {
    let mut contents = [0; CONTENTS];
    contents[..6].copy_from_slice(&SUITE);
    contents[7] = PUBLIC_KEY as u8;
    contents[8..].copy_from_slice(public);
    contents
}

/// Returns the configurations with these contents.
pub(crate) fn configs(contents: &[[u8; CONTENTS]]) -> Vec<u8> {
    let each = |contents: &[u8; CONTENTS]| {
        let mut config = VERSION.to_be_bytes().to_vec();
        // It is short.
        let _ = put_part(&mut config, contents);
        config
    };
    let all = contents.iter().flat_map(each).collect::<Vec<_>>();
    let mut bytes = Vec::new();
    match put_part(&mut bytes, &all) {
        Some(()) => bytes,
        None => Vec::new(),
    }
}

/// Returns the public key of the first configuration that can be used; `Ok(None)` if all are of other
/// versions or ciphersuites.
pub(crate) fn public_key(configs: &[u8]) -> Result<Option<[u8; PUBLIC_KEY]>, BadFormat> {
    let (mut all, rest) = part(configs)?;
    if all.is_empty() || !rest.is_empty() {
        return Err(BadFormat);
    }
    let mut found = None;
    while !all.is_empty() {
        let (version, rest) = all.split_first_chunk().ok_or(BadFormat)?;
        let (contents, rest) = part(rest)?;
        all = rest;
        if found.is_none() && u16::from_be_bytes(*version) == VERSION {
            found = key_of(contents);
        }
    }
    Ok(found)
}

/// Returns the public key in the contents of a configuration of the ciphersuite in use.
fn key_of(contents: &[u8]) -> Option<[u8; PUBLIC_KEY]> {
    let key = contents.strip_prefix(&SUITE)?;
    let (key, rest) = part(key).ok()?;
    key.try_into().ok().filter(|_| rest.is_empty())
}

/// Takes a part with a length of two bytes off the start.
fn part(bytes: &[u8]) -> Result<(&[u8], &[u8]), BadFormat> {
    let (length, rest) = bytes.split_first_chunk().ok_or(BadFormat)?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length))).ok_or(BadFormat)
}

/// Adds a part with a length of two bytes.
fn put_part(bytes: &mut Vec<u8>, part: &[u8]) -> Option<()> {
    bytes.extend(u16::try_from(part.len()).ok()?.to_be_bytes());
    bytes.extend_from_slice(part);
    Some(())
}
