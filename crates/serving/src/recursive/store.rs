//! The cache file, with which the cache survives a restart: read at the start, saved periodically and at the
//! end, on a thread of its own. A damaged file costs only its contents.

use std::fs::{self, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cache::{LoadFault, Restored};
use recursion::Service;
use sandbox::kinds::{ThreadKind, confine};
use tracing::{info, warn};
use transport::unix_now;
use zone::regular;

use telemetry::repeated::log_repeated;
use threads::sync::lock;
use wording::reason;

/// Duration of reading or writing the file from which it is logged.
const SLOW_FILE_ACCESS: Duration = Duration::from_secs(1);

/// The cache file and its thread.
pub struct CacheFile {
    path: PathBuf,
    stop: Mutex<Option<(Sender<()>, JoinHandle<()>)>>,
}

impl CacheFile {
    /// Reads the file in the background, if it exists, and saves the cache to it periodically.
    ///
    /// # Errors
    /// The system's error if it refuses a thread.
    pub fn start(path: PathBuf, every: Duration, service: &Arc<Service>) -> io::Result<CacheFile> {
        let (stop, stopped) = channel();
        let (service, file) = (Arc::clone(service), path.clone());
        let keep = move || {
            confine(ThreadKind::Files);
            keep(&file, every, &service, &stopped);
        };
        let thread = std::thread::Builder::new().name("cache-file".into()).spawn(keep)?;
        Ok(CacheFile { path, stop: Mutex::new(Some((stop, thread))) })
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Saves the cache for the last time, and ends the thread.
    pub fn stop(&self) {
        if let Some((stop, thread)) = lock(&self.stop).take() {
            drop(stop);
            // The panic hook has shown a panic.
            let _ = thread.join();
        }
    }
}

/// Runs the thread.
fn keep(path: &Path, every: Duration, service: &Service, stopped: &Receiver<()>) {
    load_at_start(path, service);
    loop {
        let over = stopped.recv_timeout(every) != Err(RecvTimeoutError::Timeout);
        save_and_say(path, service);
        if over {
            return;
        }
    }
}

fn load_at_start(path: &Path, service: &Service) {
    let began = Instant::now();
    match load(path, service) {
        Ok(Restored { kept, left_out }) => {
            let milliseconds = began.elapsed().as_millis() as u64;
            info!(kept, left_out, milliseconds, "cache read from {}", path.display());
        }
        Err(LoadFault::Io(e)) if e.kind() == io::ErrorKind::NotFound => {}
        Err(LoadFault::Io(e)) => warn!("the cache's file {} cannot be read: {}", path.display(), reason(&e)),
        Err(fault) => warn!("the cache's file {} cannot be used: {fault}", path.display()),
    }
}

fn save_and_say(path: &Path, service: &Service) {
    let began = Instant::now();
    match save(path, service) {
        Ok(entries) if began.elapsed() > SLOW_FILE_ACCESS => {
            let milliseconds = began.elapsed().as_millis() as u64;
            info!(entries, milliseconds, "cache saved to {}", path.display());
        }
        Ok(_) => {}
        Err(e) => {
            let about = ("cache not saved", &*path.display().to_string());
            log_repeated!(
                warn,
                WARN,
                about,
                "the cache cannot be saved to {}: {}",
                path.display(),
                reason(&e)
            );
        }
    }
}

/// Logs the progress of reading a file, about once a second.
struct Progress<R> {
    inner: R,
    done: u64,
    bytes: u64,
    said: Instant,
}

impl<R: Read> Read for Progress<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(to)?;
        self.done += read as u64;
        if self.said.elapsed() > SLOW_FILE_ACCESS {
            self.said = Instant::now();
            info!("reading the cache's file: {} of {} MB", self.done / 1_000_000, self.bytes / 1_000_000);
        }
        Ok(read)
    }
}

/// Loads a file into the cache, except entries that the current policy allows for no client.
///
/// # Errors
/// [`LoadFault`]; entries before the fault are in the cache.
pub fn load(path: &Path, service: &Service) -> Result<Restored, LoadFault> {
    let file = regular::open(path).map_err(LoadFault::Io)?;
    let bytes = file.metadata().map_or(0, |metadata| metadata.len());
    let mut read =
        Progress { inner: BufReader::with_capacity(1 << 18, file), done: 0, bytes, said: Instant::now() };
    let restored = service.cache().load(&mut read, service.now(Instant::now()), unix_now());
    service.drop_unfit();
    restored
}

/// Writes the cache to a file, which replaces the old one when it is complete. Returns the number of entries.
///
/// # Errors
/// The system's error. The system's.
pub fn save(path: &Path, service: &Service) -> io::Result<u64> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let write = || {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let file = regular::open_with(&mut options, &beside)?;
        let mut out = BufWriter::with_capacity(1 << 18, file);
        let entries = service.cache().save(&mut out, service.now(Instant::now()), unix_now())?;
        out.flush()?;
        out.get_ref().sync_all()?;
        fs::rename(&beside, path)?;
        Ok(entries)
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&beside);
    })
}
