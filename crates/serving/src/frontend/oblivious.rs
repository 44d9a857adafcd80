//! The keys of Oblivious DoH (RFC 9230): those of files, which are read again when they change, or random
//! ones, which are stored in the state folder and replaced when they are old.

use std::fs::DirBuilder;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use config::Settings;
use config::odoh::ObliviousPlan;
use net::{ObliviousQuery, ObliviousRefusal, ObliviousTarget, PublishedConfigs};
use rate_limits::{PrefixFactors, RateLimit, RateTable};
use threads::sync::lock;
use tls::{ObliviousFault, ObliviousKeys, ObliviousKeysInUse, ObliviousSeed, ObliviousSeeds, OpenedQuery};
use tracing::{error, info};

use super::certificates::{FileState, state};

/// Interval of the check whether files have changed and whether a key is old.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// Name of the file of random keys in the state folder. Only its owner may read it.
const KEYS_FILE: &str = "odoh-keys";
/// Length of a key in that file: the Unix time at which it was made, and its seed.
const STORED_KEY: usize = 8 + 32;
/// Most random keys: that of clients, the one before, and one more after the clock was set back.
const MAX_KEYS: usize = 3;
/// Time by which a key may have been made in the future, by a clock that was set back since.
const CLOCK_STEP: u64 = 3600;
/// Bytes of the counters of malformed messages: 8192 counters.
const LIMIT_TABLE_BYTES: usize = 64 << 10;
/// Time of the malformed messages that may come at once after a pause, at the rate of the limit.
const LIMIT_BURST: Duration = Duration::from_secs(2);

/// A random key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RandomKey {
    /// The Unix time at which it was made.
    made: u64,
    seed: ObliviousSeed,
}

/// Decrypts queries and encrypts responses, with keys that can be replaced.
pub struct ObliviousService {
    in_use: ObliviousKeysInUse,
    wanted: Mutex<WantedKeys>,
    malformed: MalformedLimit,
}

/// The limit on malformed messages of each client.
struct MalformedLimit {
    /// Messages a second; 0 is no limit.
    rate: AtomicU32,
    table: RateTable,
}

impl MalformedLimit {
    /// Returns the limit, without a rate.
    ///
    /// # Errors
    /// The system gives no random numbers.
    fn new() -> io::Result<Self> {
        let mut keys = [0; 4];
        for key in &mut keys {
            *key = getrandom::u64().map_err(io::Error::other)?;
        }
        let table = RateTable::new(LIMIT_TABLE_BYTES, keys, Instant::now());
        Ok(MalformedLimit { rate: AtomicU32::new(0), table })
    }

    fn in_force(&self) -> Option<RateLimit> {
        let rate = self.rate.load(Relaxed);
        // An IPv6 /64 has the limit of one address, which it can change at will.
        let limit = || RateLimit::new(rate, PrefixFactors([0; 3]), PrefixFactors([1, 0, 0]), LIMIT_BURST);
        (rate > 0).then(limit)
    }

    /// Whether the client has sent too many.
    fn is_over(&self, client: IpAddr, now: Instant) -> bool {
        let is_over = |limit| self.table.is_over(&self.table.hashes(client), &limit, self.table.ticks(now));
        self.in_force().is_some_and(is_over)
    }

    /// Counts a message.
    fn count(&self, client: IpAddr, now: Instant) {
        if let Some(limit) = self.in_force() {
            self.table.admit(&self.table.hashes(client), &limit, self.table.ticks(now));
        }
    }
}

/// Which keys are to be used.
#[derive(Default)]
struct WantedKeys {
    /// `None`: Oblivious DoH is off.
    plan: Option<ObliviousPlan>,
    folder: Option<PathBuf>,
    /// The random keys, the newest first. Also while those of files are in use.
    random: Vec<RandomKey>,
    /// The state in which the files were read last; `None` before they are read here for the first time.
    read: Option<Vec<FileState>>,
}

impl ObliviousService {
    /// Returns the service with the keys that the configuration asks for.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub(super) fn new(settings: &Settings) -> io::Result<Self> {
        let (in_use, wanted) = (ObliviousKeysInUse::default(), Mutex::default());
        let service = ObliviousService { in_use, wanted, malformed: MalformedLimit::new()? };
        service.adopt(settings);
        Ok(service)
    }

    /// Uses the keys that the configuration asks for.
    pub(super) fn adopt(&self, settings: &Settings) {
        let wanted = &mut *lock(&self.wanted);
        wanted.plan = settings.odoh.as_ref().map(|section| section.plan());
        self.malformed.rate.store(wanted.plan.as_ref().map_or(0, |plan| plan.malformed), Relaxed);
        wanted.folder = settings.server.storage.folder();
        wanted.read = None;
        match &wanted.plan {
            None => self.in_use.set(None),
            Some(ObliviousPlan { overlap, shared: Some((_, seeds)), .. }) => {
                self.in_use.set(Some(ObliviousKeys::new(seeds, *overlap)));
            }
            Some(_) => {
                if wanted.random.is_empty() {
                    wanted.random = wanted.folder.as_deref().map(stored).unwrap_or_default();
                }
                wanted.renew(unix_time());
                self.use_random(wanted);
            }
        }
    }

    /// Uses changed files, or a new random key if the newest one is old.
    fn refresh(&self, now: u64) {
        let wanted = &mut *lock(&self.wanted);
        match &wanted.plan {
            None => {}
            Some(ObliviousPlan { overlap, shared: Some((files, _)), .. }) => {
                let states: Vec<FileState> = files.iter().map(|file| state(file)).collect();
                if wanted.read.as_ref() == Some(&states) {
                    return;
                }
                match files.iter().map(|file| ObliviousSeeds::read(file)).collect::<Result<Vec<_>, _>>() {
                    Ok(read) => {
                        let seeds = read.iter().flat_map(|file| &file.seeds);
                        self.in_use.set(Some(ObliviousKeys::new(seeds, *overlap)));
                    }
                    Err(fault) => error!("the keys of Oblivious DoH before stay in use: {fault}"),
                }
                if wanted.read.replace(states).is_some() {
                    info!("the files of keys of Oblivious DoH have changed");
                }
            }
            Some(_) => {
                let has_changed = wanted.renew(now);
                if has_changed {
                    self.use_random(wanted);
                }
            }
        }
    }

    fn use_random(&self, wanted: &WantedKeys) {
        let overlap = wanted.plan.as_ref().map_or(Duration::ZERO, |plan| plan.overlap);
        let seeds = wanted.random.iter().map(|key| &key.seed);
        // Without random numbers there may be none.
        let keys = (!wanted.random.is_empty()).then(|| ObliviousKeys::new(seeds, overlap));
        self.in_use.set(keys);
    }
}

impl WantedKeys {
    /// Makes a new key if the newest is old, and removes those that are not needed any more. Returns whether
    /// there was one to make or to remove, which is then stored.
    fn renew(&mut self, now: u64) -> bool {
        let Some(plan) = &self.plan else { return false };
        let newest = self.random.first();
        let is_due = |key: &RandomKey| {
            now >= key.made.saturating_add(plan.rotate.as_secs()) || now.saturating_add(CLOCK_STEP) < key.made
        };
        let before = self.random.len();
        if newest.is_none_or(is_due) {
            match ObliviousSeed::random() {
                Ok(seed) => self.random.insert(0, RandomKey { made: now, seed }),
                Err(fault) => error!("no new key of Oblivious DoH: {fault}"),
            }
        }
        let made = self.random.len() > before;
        // A key is kept until the overlap after its successor was made.
        let successors: Vec<u64> = self.random.iter().map(|key| key.made).collect();
        let kept = successors.iter().take_while(|made| now < made.saturating_add(plan.overlap.as_secs()));
        let kept = (1 + kept.count()).min(MAX_KEYS);
        let removed = self.random.len() > kept;
        self.random.truncate(kept);
        if (made || removed)
            && let Some(folder) = &self.folder
            && let Err(fault) = store(folder, &self.random)
        {
            let file = folder.join(KEYS_FILE);
            let reason = wording::reason(&fault);
            error!(
                "the next start makes new keys of Oblivious DoH: cannot write {}: {reason}",
                file.display()
            );
        }
        made || removed
    }
}

impl ObliviousTarget for ObliviousService {
    fn configs(&self) -> Option<PublishedConfigs> {
        let keys = self.in_use.get()?;
        let max_age = u32::try_from(keys.max_age().as_secs()).unwrap_or(u32::MAX);
        Some(PublishedConfigs { bytes: keys.configs().to_vec(), max_age })
    }

    fn open(&self, message: &[u8], client: IpAddr) -> Result<ObliviousQuery, ObliviousRefusal> {
        self.open_at(message, client, Instant::now())
    }
}

impl ObliviousService {
    fn open_at(
        &self,
        message: &[u8],
        client: IpAddr,
        now: Instant,
    ) -> Result<ObliviousQuery, ObliviousRefusal> {
        let keys = self.in_use.get().ok_or(ObliviousRefusal::Off)?;
        if self.malformed.is_over(client, now) {
            return Err(ObliviousRefusal::TooMany);
        }
        match keys.open(message) {
            Ok(OpenedQuery { message, sealer }) => {
                Ok(ObliviousQuery { message, seal: Box::new(|response| sealer.seal(response).ok()) })
            }
            Err(ObliviousFault::UnknownKey) => Err(ObliviousRefusal::UnknownKey),
            Err(_) => {
                self.malformed.count(client, now);
                Err(ObliviousRefusal::Malformed)
            }
        }
    }
}

/// Watches the files of keys, and the age of random ones, for as long as the server runs.
pub async fn watch(service: Arc<ObliviousService>) {
    let mut ticks = tokio::time::interval(CHECK_INTERVAL);
    loop {
        ticks.tick().await;
        let service = Arc::clone(&service);
        // Files may be on a slow disk. A panic is reported by the hook.
        let _ = tokio::task::spawn_blocking(move || service.refresh(unix_time())).await;
    }
}

fn unix_time() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Returns the keys in the state folder; none if it has none that can be used.
fn stored(folder: &Path) -> Vec<RandomKey> {
    let path = folder.join(KEYS_FILE);
    let read = zone::regular::read_with_checksum(&path, (MAX_KEYS * STORED_KEY) as u64);
    let fault = match read.as_deref().map(keys_of) {
        Ok(Some(keys)) => return keys,
        Ok(None) => "it has no keys".to_owned(),
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(fault) => wording::reason(fault),
    };
    error!("new keys of Oblivious DoH are made: cannot use {}: {fault}", path.display());
    Vec::new()
}

/// Returns the keys with these bytes.
fn keys_of(bytes: &[u8]) -> Option<Vec<RandomKey>> {
    let (keys, rest) = bytes.as_chunks::<STORED_KEY>();
    let key = |bytes: &[u8; STORED_KEY]| {
        let (made, seed) = bytes.split_first_chunk()?;
        let seed = ObliviousSeed::new(seed.try_into().ok()?)?;
        Some(RandomKey { made: u64::from_be_bytes(*made), seed })
    };
    rest.is_empty().then(|| keys.iter().map(key).collect()).flatten()
}

/// Writes the keys to the state folder, which is made if it is missing.
fn store(folder: &Path, keys: &[RandomKey]) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let each = |key: &RandomKey| [&key.made.to_be_bytes()[..], key.seed.secret_bytes()].concat();
    let bytes: Vec<u8> = keys.iter().flat_map(each).collect();
    zone::regular::replace_with_checksum(&folder.join(KEYS_FILE), &bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use tls::ObliviousConfig;

    use super::*;

    const DAY: u64 = 24 * 3600;
    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn settings(folder: &Path, more: &str) -> Settings {
        let text = format!("[server]\nstate-dir = \"state\"\n{more}");
        let mut settings = config::read_text("test", text, folder).expect("good").config.settings;
        settings.read_named_files().expect("good");
        settings
    }

    fn service(folder: &Path, more: &str) -> ObliviousService {
        ObliviousService::new(&settings(folder, more)).expect("random numbers")
    }

    fn published(service: &ObliviousService) -> ObliviousConfig {
        ObliviousConfig::first(&service.configs().expect("on").bytes).expect("a configuration")
    }

    fn refusal(service: &ObliviousService, config: &ObliviousConfig) -> Option<ObliviousRefusal> {
        service.open(&config.seal(&[7; 12]).expect("sealed").0, CLIENT).err()
    }

    #[test]
    fn a_key_is_replaced_when_it_is_old_and_kept_for_a_while() {
        let folder = tempfile::tempdir().expect("a folder");
        let service = service(folder.path(), "[odoh]\n");
        let (first, now) = (published(&service), unix_time());
        assert_eq!(service.configs().expect("on").max_age, 3600);
        service.refresh(now + DAY - 60);
        assert_eq!(published(&service), first);
        service.refresh(now + DAY);
        let second = published(&service);
        assert_ne!(second, first);
        assert_eq!((refusal(&service, &first), refusal(&service, &second)), (None, None));
        service.refresh(now + DAY + 3599);
        assert_eq!(refusal(&service, &first), None);
        service.refresh(now + DAY + 3600);
        assert_eq!(refusal(&service, &first), Some(ObliviousRefusal::UnknownKey));
        assert_eq!(refusal(&service, &second), None);
        // The clock is set back by more than a moment.
        service.refresh(now);
        assert_ne!(published(&service), second);
        assert_eq!(refusal(&service, &second), None);
        assert_eq!(service.open(&[1; 5], CLIENT).err(), Some(ObliviousRefusal::Malformed));
    }

    #[test]
    fn a_client_with_many_malformed_messages_waits_until_any_is_decrypted() {
        let folder = tempfile::tempdir().expect("a folder");
        let service = service(folder.path(), "[odoh]\nmalformed-per-second = 5\n");
        let config = published(&service);
        let (good, _) = config.seal(&[7; 12]).expect("sealed");
        let mut damaged = good.clone();
        *damaged.last_mut().expect("bytes") ^= 1;
        let mut unknown = good.clone();
        unknown[4] ^= 1;
        let (now, of) = (Instant::now(), |text: &str| text.parse().expect("an address"));
        let refusal = |message: &[u8], client: &str, milliseconds| {
            service.open_at(message, of(client), now + Duration::from_millis(milliseconds)).err()
        };
        let (malformed, too_many) = (Some(ObliviousRefusal::Malformed), Some(ObliviousRefusal::TooMany));
        for client in ["192.0.2.1", "2001:db8::1"] {
            for _ in 0..20 {
                assert_eq!(refusal(&unknown, client, 0), Some(ObliviousRefusal::UnknownKey));
            }
            assert!((0..10).all(|_| refusal(&damaged, client, 0) == malformed), "{client}");
            assert_eq!((refusal(&damaged, client, 0), refusal(&good, client, 0)), (too_many, too_many));
        }
        assert_eq!(refusal(&good, "2001:db8::2", 0), too_many, "of the same /64");
        assert_eq!((refusal(&good, "192.0.2.2", 0), refusal(&good, "2001:db8:0:1::1", 0)), (None, None));
        assert_eq!(refusal(&good, "192.0.2.1", 201), None);
        assert_eq!(
            (refusal(&damaged, "192.0.2.1", 201), refusal(&good, "192.0.2.1", 201)),
            (malformed, too_many)
        );
        service.adopt(&settings(folder.path(), "[odoh]\nmalformed-per-second = 0\n"));
        assert!((0..100).all(|_| refusal(&damaged, "192.0.2.1", 201) == malformed));
    }

    #[test]
    fn keys_outlive_a_restart_and_damaged_ones_are_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        let first = published(&service(at, "[odoh]\n"));
        let file = at.join("state").join(KEYS_FILE);
        assert_eq!(std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
        assert_eq!(published(&service(at, "[odoh]\n")), first);
        let mut damaged = std::fs::read(&file).expect("read");
        damaged[20] ^= 1;
        std::fs::write(&file, &damaged).expect("written");
        let second = published(&service(at, "[odoh]\n"));
        assert_ne!(second, first);
        assert_eq!(published(&service(at, "[odoh]\n")), second);
        assert!(keys_of(&[7; STORED_KEY]).is_none(), "not random");
    }

    #[test]
    fn a_reload_turns_it_off_and_files_are_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        let write = |first: u8| {
            std::fs::write(at.join("shared.key"), (first..first + 32).collect::<Vec<u8>>()).expect("written");
        };
        write(1);
        let of_files = "[odoh]\nkey-files = [\"shared.key\"]\n";
        let service = service(at, of_files);
        let first = published(&service);
        assert_eq!(published(&self::service(at, of_files)), first, "servers share it");
        write(2);
        service.refresh(unix_time());
        let second = published(&service);
        assert!(second != first && refusal(&service, &first) == Some(ObliviousRefusal::UnknownKey));
        std::fs::write(at.join("shared.key"), "half").expect("written");
        service.refresh(unix_time());
        assert_eq!(published(&service), second);
        service.adopt(&settings(at, ""));
        assert_eq!(service.configs(), None);
        assert_eq!(refusal(&service, &second), Some(ObliviousRefusal::Off));
        service.adopt(&settings(at, "[odoh]\n"));
        assert!(published(&service) != second);
    }
}
