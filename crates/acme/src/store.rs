//! What is stored between runs: the account of each CA, the certificate with its key in one file, and the
//! schedule. Files are replaced as a whole once they are on disk, and only their owner may read them.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};
use instant_acme::AccountCredentials;
use serde::{Deserialize, Serialize};
use tls::{CertificateFault, ServerCertificate};
use url::Url;
use zone::regular;

use crate::fault::AcmeStoreFault;
use crate::issued::IssuedChain;
use crate::schedule::AcmeSchedule;

/// Most bytes of a file.
const MAX_FILE: u64 = 1 << 20;

/// File of the records of challenges.
const RECORDS: &str = "records.json";

/// A TXT record of a challenge, in a zone of this server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredRecord {
    /// The zone.
    pub zone: String,
    /// The view that the zone is in.
    pub view: Option<String>,
    /// The owner.
    pub owner: String,
    /// The text.
    pub value: String,
}

/// The folder of what is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeStore {
    folder: PathBuf,
}

/// An account at a CA.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredAccount {
    /// The contacts that the CA has.
    pub(crate) contacts: Vec<String>,
    /// The identifier of the external account that it is bound to.
    #[serde(default)]
    pub(crate) bound_to: Option<String>,
    /// Its URL and its key.
    pub(crate) credentials: AccountCredentials,
}

impl AcmeStore {
    /// Returns what is stored in this state folder.
    pub fn new(state: &Path) -> Self {
        AcmeStore { folder: state.join("acme") }
    }

    /// Reads the certificate; `None` if none is stored.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn certificate(&self) -> Result<Option<ServerCertificate>, CertificateFault> {
        let path = self.certificate_file();
        match ServerCertificate::read(&path, &path) {
            Err(CertificateFault::Read(_, error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    /// Checks a chain and its key, and stores them in place of those before.
    ///
    /// # Errors
    /// Why those before are still there.
    pub fn keep_certificate(&self, issued: &IssuedChain) -> Result<ServerCertificate, String> {
        let (own, fresh) = (self.certificate_file(), self.folder.join("issued.pem"));
        let text = format!("{}{}", issued.key, issued.chain);
        self.replace(&fresh, text.as_bytes()).map_err(|fault| fault.to_string())?;
        let read = ServerCertificate::read(&fresh, &fresh).map_err(|fault| fault.to_string())?;
        let lacking = issued.names.iter().find(|name| !read.names.contains(name));
        if let Some(name) = lacking {
            return Err(format!("the certificate of the CA is not for {name}"));
        }
        let moved = fs::rename(&fresh, &own).and_then(|()| fs::File::open(&self.folder)?.sync_all());
        moved.map_err(|error| AcmeStoreFault::Write(own.clone(), error).to_string())?;
        ServerCertificate::read(&own, &own).map_err(|fault| fault.to_string())
    }

    /// Reads the schedule; that of a first start if none is stored.
    ///
    /// # Errors
    /// [`AcmeStoreFault`].
    pub fn schedule(&self) -> Result<AcmeSchedule, AcmeStoreFault> {
        self.read(&self.folder.join("schedule.json")).map(Option::unwrap_or_default)
    }

    /// Stores the schedule.
    ///
    /// # Errors
    /// [`AcmeStoreFault`].
    pub fn keep_schedule(&self, schedule: &AcmeSchedule) -> Result<(), AcmeStoreFault> {
        self.write(&self.folder.join("schedule.json"), schedule)
    }

    /// Reads the records of challenges that may be in zones; none if none are stored.
    ///
    /// # Errors
    /// [`AcmeStoreFault`].
    pub fn records(&self) -> Result<Vec<StoredRecord>, AcmeStoreFault> {
        self.read(&self.folder.join(RECORDS)).map(Option::unwrap_or_default)
    }

    /// Stores the records of challenges that may be in zones.
    ///
    /// # Errors
    /// [`AcmeStoreFault`].
    pub fn keep_records(&self, records: &[StoredRecord]) -> Result<(), AcmeStoreFault> {
        let path = self.folder.join(RECORDS);
        if !records.is_empty() {
            return self.write(&path, &records);
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(AcmeStoreFault::Write(path, error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Reads the account at the CA with this directory; `None` if there is none.
    pub(crate) fn account(&self, directory: &Url) -> Result<Option<StoredAccount>, AcmeStoreFault> {
        self.read(&self.account_file(directory))
    }

    pub(crate) fn keep_account(
        &self,
        directory: &Url,
        account: &StoredAccount,
    ) -> Result<(), AcmeStoreFault> {
        self.write(&self.account_file(directory), account)
    }

    /// Removes an account that the CA does not have any more.
    pub(crate) fn forget_account(&self, directory: &Url) -> Result<(), AcmeStoreFault> {
        let path = self.account_file(directory);
        fs::remove_file(&path).map_err(|error| AcmeStoreFault::Write(path, error))
    }

    fn certificate_file(&self) -> PathBuf {
        self.folder.join("certificate.pem")
    }

    fn account_file(&self, directory: &Url) -> PathBuf {
        let digest = digest(&SHA256, directory.as_str().as_bytes());
        let identity: String = digest.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(format!("account-{identity}.json"))
    }

    fn read<T: for<'de> Deserialize<'de>>(&self, path: &Path) -> Result<Option<T>, AcmeStoreFault> {
        let bytes = match regular::read(path, MAX_FILE) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| AcmeStoreFault::Read(path.to_owned(), error))?,
        };
        serde_json::from_slice(&bytes).map(Some).map_err(|_| AcmeStoreFault::Foreign(path.to_owned()))
    }

    fn write(&self, path: &Path, value: &impl Serialize) -> Result<(), AcmeStoreFault> {
        let text = serde_json::to_vec_pretty(value);
        let text = text.map_err(|error| AcmeStoreFault::Write(path.to_owned(), io::Error::other(error)))?;
        self.replace(path, &text)
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), AcmeStoreFault> {
        let fault = |error| AcmeStoreFault::Write(path.to_owned(), error);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder).map_err(fault)?;
        regular::replace(path, bytes).map_err(fault)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::{Duration, SystemTime};

    use rcgen::{CertificateParams, KeyPair};

    use super::*;
    use crate::schedule::AcmeTarget;

    fn issued(name: &str) -> IssuedChain {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let made = params.self_signed(&key).expect("signed");
        IssuedChain { names: [name.to_owned()].into(), chain: made.pem(), key: key.serialize_pem() }
    }

    #[test]
    fn the_last_good_certificate_stays_and_only_the_owner_may_read_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = AcmeStore::new(folder.path());
        assert!(store.certificate().expect("nothing is wrong").is_none());
        let first = store.keep_certificate(&issued("a.example")).expect("stored");
        assert_eq!(first.names, ["a.example"]);
        let names = || store.certificate().expect("good").expect("there").names;
        for (bad, expected) in [
            (IssuedChain { chain: "no PEM".into(), ..issued("b.example") }, "there is no certificate in"),
            (IssuedChain { key: issued("c.example").key, ..issued("b.example") }, "the key in"),
            (
                IssuedChain { names: ["c.example".to_owned()].into(), ..issued("b.example") },
                "the certificate of the CA is not for c.example",
            ),
        ] {
            let fault = store.keep_certificate(&bad).expect_err(expected);
            assert!(fault.contains(expected), "{fault}");
            assert_eq!(names(), ["a.example"]);
        }
        store.keep_certificate(&issued("b.example")).expect("stored");
        assert_eq!(names(), ["b.example"]);
        let mode = |path: PathBuf| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(store.certificate_file()), mode(store.folder.clone())), (0o600, 0o700));
        assert!(!store.certificate().expect("good").expect("there").key_is_public);
    }

    #[test]
    fn a_schedule_is_read_as_it_was_written_and_a_damaged_one_is_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = AcmeStore::new(folder.path());
        assert_eq!(store.schedule().expect("none"), AcmeSchedule::default());
        let mut schedule = AcmeSchedule::default();
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        schedule.failed(&AcmeTarget::default(), None, "why".into(), None, now);
        store.keep_schedule(&schedule).expect("stored");
        assert_eq!(store.schedule().expect("good"), schedule);
        let path = store.folder.join("schedule.json");
        fs::write(&path, "{").expect("written");
        let fault = store.schedule().expect_err("damaged").to_string();
        assert!(fault.ends_with("schedule.json is damaged, or not of this version of nomen"), "{fault}");
        store.keep_schedule(&schedule).expect("a damaged file is replaced");
    }

    #[test]
    fn records_of_challenges_are_found_again_until_none_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = AcmeStore::new(folder.path());
        assert!(store.records().expect("none").is_empty());
        store.keep_records(&[]).expect("nothing to remove");
        let record = |view: Option<&str>| StoredRecord {
            zone: "example.".into(),
            view: view.map(str::to_owned),
            owner: "_acme-challenge.dns.example.".into(),
            value: "text".into(),
        };
        let both = [record(None), record(Some("inside"))];
        store.keep_records(&both).expect("stored");
        assert_eq!(store.records().expect("read"), both);
        store.keep_records(&[]).expect("removed");
        assert!(store.records().expect("none").is_empty() && !store.folder.join(RECORDS).exists());
    }

    #[test]
    fn each_ca_has_an_account_of_its_own() {
        let store = AcmeStore::new(Path::new("/state"));
        let file = |url: &str| store.account_file(&Url::parse(url).expect("a URL"));
        assert_eq!(file("https://a.example/"), file("https://a.example"));
        assert_ne!(file("https://a.example/"), file("https://b.example/"));
        assert!(file("https://a.example/").starts_with("/state/acme"));
    }
}
