//! Keys of session tickets that several servers share, so that a client resumes at one of them a session that
//! it began at another.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use rustls::server::ProducesTickets;

use crate::files::{RandomKeyFault, RandomKeys, read_keys};

/// Length of a key in its file, in bytes: what nginx, Unbound, HAProxy and dnsdist have.
const KEY: usize = 80;
/// Length of the name of a key, which is the first part of a ticket, in bytes.
const NAME: usize = 16;
/// How long clients may keep a ticket, in seconds. A key that is removed earlier ends it earlier.
const LIFETIME: u32 = 12 * 3600;
/// Longest ticket that is read, in bytes.
const MAX_TICKET: usize = 16 << 10;

/// The keys of session tickets of one file.
#[derive(Debug)]
pub struct TicketKeys {
    keys: Vec<TicketKey>,
    /// Whether users other than the owner and the group of the file may read it.
    pub is_public: bool,
}

impl PartialEq for TicketKeys {
    fn eq(&self, other: &Self) -> bool {
        self.keys.iter().map(|key| key.name).eq(other.keys.iter().map(|key| key.name))
    }
}

impl TicketKeys {
    /// Reads keys from a file, each of 80 random bytes.
    ///
    /// # Errors
    /// What is wrong, with the file.
    pub fn read(path: &Path) -> Result<Self, RandomKeyFault> {
        let RandomKeys { keys, is_public } = read_keys::<KEY>(path, "session tickets")?;
        Ok(TicketKeys { keys: keys.iter().map(TicketKey::new).collect(), is_public })
    }
}

/// A key of session tickets: all servers with the same secret make the same of it.
struct TicketKey {
    name: [u8; NAME],
    seal: RandomizedNonceKey,
}

impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketKey")
    }
}

/// A number of bytes that are derived from a secret.
#[derive(Clone, Copy)]
struct Bytes(usize);

impl KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

impl TicketKey {
    fn new(secret: &[u8; KEY]) -> Self {
        let derived = Salt::new(HKDF_SHA256, b"nomen session tickets").extract(secret);
        let fill = |purpose: &[u8], out: &mut [u8]| {
            let purpose = [purpose];
            let filled = derived.expand(&purpose, Bytes(out.len())).and_then(|bytes| bytes.fill(out));
            filled.expect("HKDF derives up to 8,160 bytes");
        };
        let (mut name, mut key) = ([0; NAME], [0; 32]);
        fill(b"name", &mut name);
        fill(b"key", &mut key);
        // Nonces are random. With this algorithm a nonce that repeats shows that two tickets are equal, and
        // no more (RFC 8452 §9), however many servers use the key.
        let seal = RandomizedNonceKey::new(&AES_256_GCM_SIV, &key).expect("the key has the right length");
        TicketKey { name, seal }
    }

    /// Returns the ticket of this state: name of the key, nonce, sealed state.
    fn seal(&self, state: &[u8]) -> Option<Vec<u8>> {
        let mut sealed = state.to_vec();
        let nonce = self.seal.seal_in_place_append_tag(Aad::from(&self.name), &mut sealed).ok()?;
        Some([&self.name[..], nonce.as_ref(), &sealed].concat())
    }

    /// Returns the state in what follows the name of a ticket.
    fn open(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = ticket.split_first_chunk::<NONCE_LEN>()?;
        let mut state = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length = self.seal.open_in_place(nonce, Aad::from(&self.name), &mut state).ok()?.len();
        state.truncate(length);
        Some(state)
    }
}

/// What makes and reads the tickets of listeners: shared keys, or those of this process alone while there are
/// none.
pub(crate) struct Tickets {
    shared: ArcSwap<Vec<Arc<TicketKeys>>>,
    own: Arc<dyn ProducesTickets>,
}

impl Tickets {
    /// Returns tickets of this process, whose keys are random.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn new() -> Result<Self, rustls::Error> {
        let own = rustls::crypto::aws_lc_rs::Ticketer::new()?;
        Ok(Tickets { shared: ArcSwap::default(), own })
    }

    /// Uses these keys from now on: the first makes tickets, all read them. None: those of the process.
    pub(crate) fn share(&self, keys: Vec<Arc<TicketKeys>>) {
        self.shared.store(Arc::new(keys));
    }

    /// Returns the shared keys in use.
    pub(crate) fn shared(&self) -> Arc<Vec<Arc<TicketKeys>>> {
        self.shared.load_full()
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tickets")
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME
    }

    fn encrypt(&self, state: &[u8]) -> Option<Vec<u8>> {
        match self.shared.load().iter().flat_map(|file| &file.keys).next() {
            Some(first) => first.seal(state),
            None => self.own.encrypt(state),
        }
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let shared = self.shared.load();
        if shared.is_empty() {
            return self.own.decrypt(ticket);
        }
        if ticket.len() > MAX_TICKET {
            return None;
        }
        let (name, rest) = ticket.split_first_chunk::<NAME>()?;
        let mut keys = shared.iter().flat_map(|file| &file.keys);
        keys.find(|key| key.name == *name)?.open(rest)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// The keys that a file with these bytes has.
    fn keys(bytes: &[u8]) -> Result<TicketKeys, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("keys");
        std::fs::write(&path, bytes).expect("written");
        TicketKeys::read(&path).map_err(|fault| fault.to_string().replace(&*path.to_string_lossy(), "FILE"))
    }

    /// Bytes that differ, from this one on.
    fn secret(first: u8) -> Vec<u8> {
        (first..).take(KEY).collect()
    }

    fn tickets(secrets: &[u8]) -> Tickets {
        let tickets = Tickets::new().expect("made");
        let files = secrets.iter().map(|&first| Arc::new(keys(&secret(first)).expect("keys")));
        tickets.share(files.collect());
        tickets
    }

    #[test]
    fn servers_with_a_key_read_the_tickets_of_each_other() {
        let (one, two, other) = (tickets(&[1, 2]), tickets(&[2, 1]), tickets(&[3]));
        let ticket = one.encrypt(b"state").expect("a ticket");
        assert_eq!(one.decrypt(&ticket).as_deref(), Some(&b"state"[..]));
        assert_eq!(two.decrypt(&ticket).as_deref(), Some(&b"state"[..]), "the key is its second one");
        assert_eq!(other.decrypt(&ticket), None);
        assert_ne!(one.encrypt(b"state"), Some(ticket.clone()), "each ticket has a nonce of its own");
        let second = two.encrypt(b"state").expect("a ticket");
        assert_eq!(second[..NAME], tickets(&[2]).encrypt(b"").expect("a ticket")[..NAME], "of its first key");
        one.share(vec![Arc::new(keys(&secret(2)).expect("keys"))]);
        assert_eq!(one.decrypt(&ticket), None, "the key was removed");
    }

    #[test]
    fn every_changed_bit_of_a_ticket_is_noticed() {
        let tickets = tickets(&[1]);
        let ticket = tickets.encrypt(&[7; 40]).expect("a ticket");
        for bit in 0..ticket.len() * 8 {
            let mut changed = ticket.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(tickets.decrypt(&changed), None, "bit {bit}");
        }
        for length in 0..ticket.len() {
            assert_eq!(tickets.decrypt(&ticket[..length]), None, "{length} bytes");
        }
        assert_eq!(tickets.decrypt(&[ticket, vec![0; MAX_TICKET]].concat()), None);
    }

    #[test]
    fn without_shared_keys_the_process_has_its_own() {
        let (one, two) = (tickets(&[]), tickets(&[]));
        let ticket = one.encrypt(b"state").expect("a ticket");
        assert_eq!(one.decrypt(&ticket).as_deref(), Some(&b"state"[..]));
        assert_eq!(two.decrypt(&ticket), None);
    }

    #[test]
    fn files_have_whole_keys() {
        let two = [secret(1), secret(2)].concat();
        assert_eq!(keys(&two).expect("two").keys.len(), 2);
        assert_eq!(keys(&two).expect("two"), keys(&two).expect("the same"));
        assert_ne!(keys(&secret(1)).expect("one"), keys(&two).expect("two"));
        let many = (0..17).flat_map(secret).collect::<Vec<_>>();
        assert!(keys(&many[..16 * KEY]).is_ok());
        for (bad, words) in [
            (&[][..], "FILE has 0 bytes"),
            (&secret(1)[..48], "FILE has 48 bytes; each key of session tickets has 80"),
            (&many, "FILE has 1360 bytes"),
            (&[0; KEY], "not random"),
            (&[secret(1), vec![9; KEY]].concat(), "not random"),
        ] {
            let fault = keys(bad).expect_err("bad");
            assert!(fault.contains(words), "{fault}");
        }
        let fault = TicketKeys::read(Path::new("/nonexistent/keys")).expect_err("no file");
        assert_eq!(fault.to_string(), "cannot read /nonexistent/keys: there is no such file");
    }

    #[test]
    fn a_file_that_every_user_may_read_is_noticed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("keys");
        std::fs::write(&path, secret(1)).expect("written");
        for (mode, expected) in [(0o600, false), (0o640, false), (0o644, true)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("changed");
            assert_eq!(TicketKeys::read(&path).expect("keys").is_public, expected, "{mode:o}");
        }
    }
}
