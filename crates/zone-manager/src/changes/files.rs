//! Writing of the zone files of zones that change. The version in service is written to the file when an
//! operator asks for it, by the thread that asks, or some time after a change, by a separate thread: threads
//! that change or serve zones do not wait for that. An edit that nomen has not read is not overwritten unless
//! an operator asks for it.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{RecvTimeoutError, Sender, sync_channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use signer::incremental::unsign;
use signer::zone::SignFault;
use tracing::info;
use wire::{Serial, Type, ZoneName};
use zone::{Stamp, Zone};
use zone_plan::ZoneText;

use super::notes::KnownFile;
use super::queue::Entry;
use super::signing::ZoneKeyStatus;
use super::worker::Order;
use super::{Shared, THREAD_REPLY_TIMEOUT};
use crate::managed::FileStamp;
use crate::written::{self, WriteFault};
use telemetry::repeated::log_repeated;
use threads::sync::lock;
use wording::reason;

/// A zone file that holds the version in service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurrentFile {
    /// The file.
    pub path: PathBuf,
    /// The serial number of the zone in it.
    pub serial: Serial,
    /// Records of the zone in it.
    pub records: u64,
    /// Whether it was written now; false if it already had this version.
    pub written: bool,
}

/// Why a zone file was not written, or a zone not frozen. Neither has changed.
#[derive(Debug)]
pub enum FileFault {
    /// The zone does not exist, or no version of it is in service.
    NotLoaded,
    /// The zone has no zone file.
    NoFile,
    /// The file was edited since nomen read or wrote it.
    Edited(PathBuf),
    /// The file cannot be written.
    Write(WriteFault),
    /// The data of a signed zone cannot be separated from what its signer has made.
    Unsigned(SignFault),
    /// The notes of zones cannot be written.
    Notes(io::Error),
    /// The thread that changes zones does not reply.
    Busy,
    /// The server is stopping.
    Stopping,
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLoaded => f.write_str("no version of the zone is served"),
            Self::NoFile => f.write_str("the zone has no file of its own: say where to write it with --to"),
            Self::Edited(path) => write!(
                f,
                "{} was changed since nomen read or wrote it: `nomen ctl zone reload --force`, or `thaw` of \
                a frozen zone, applies it, `nomen ctl zone write --force` overwrites it",
                path.display()
            ),
            Self::Write(fault) => write!(f, "the zone's file is not written: {fault}"),
            Self::Unsigned(fault) => write!(f, "the zone's file is not written: {fault}"),
            Self::Notes(error) => write!(f, "the state folder cannot be written: {}", reason(error)),
            Self::Busy => f.write_str("the thread that changes zones does not answer"),
            Self::Stopping => f.write_str("the server is stopping"),
        }
    }
}
impl std::error::Error for FileFault {}

/// State of a zone file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileState {
    /// The file does not exist.
    Missing,
    /// The file is as nomen read or wrote it, with this serial number.
    Known(Serial),
    /// The file is not as nomen read or wrote it.
    Edited,
}

/// Zones whose files are due to be written, with the times.
#[derive(Default)]
pub(super) struct Due {
    /// Ordered by time.
    order: BTreeSet<(Instant, ZoneName)>,
    zones: HashSet<ZoneName>,
}

impl Due {
    /// Makes a zone due at a time, unless it is due already. Returns whether it was not.
    fn add(&mut self, apex: &ZoneName, at: Instant) -> bool {
        let is_new = !self.zones.contains(apex);
        if is_new {
            self.zones.insert(apex.clone());
            self.order.insert((at, apex.clone()));
        }
        is_new
    }

    /// Removes and returns the first zone if it is due at `now`; otherwise returns the time at which it is.
    fn next(&mut self, now: Instant) -> Result<ZoneName, Option<Instant>> {
        match self.order.first() {
            Some((at, _)) if *at > now => Err(Some(*at)),
            _ => {
                let (_, apex) = self.order.pop_first().ok_or(None)?;
                self.zones.remove(&apex);
                Ok(apex)
            }
        }
    }
}

/// The times at which files are due, with a condition variable.
#[derive(Default)]
pub(super) struct Schedule {
    due: Mutex<Due>,
    changed: Condvar,
}

impl Schedule {
    /// Makes the file of a zone that changes due within this time.
    pub(super) fn within(&self, apex: &ZoneName, time: Duration) {
        if lock(&self.due).add(apex, Instant::now() + time) {
            self.changed.notify_one();
        }
    }

    /// Waits until a zone is due.
    fn wait(&self) -> ZoneName {
        let mut due = lock(&self.due);
        loop {
            let now = Instant::now();
            due = match due.next(now) {
                Ok(apex) => return apex,
                Err(None) => self.changed.wait(due).unwrap_or_else(PoisonError::into_inner),
                Err(Some(at)) => {
                    let waited = self.changed.wait_timeout(due, at.saturating_duration_since(now));
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

/// Writer of zone files; cheap to clone.
#[derive(Clone)]
pub(super) struct ZoneFiles {
    pub(super) shared: Arc<Shared>,
    pub(super) orders: Sender<Order>,
}

impl ZoneFiles {
    /// Writes files as they become due, until the process ends: the body of a thread.
    pub(super) fn work(self) {
        loop {
            let apex = self.shared.schedule.wait();
            // A panic is a bug in nomen. It fails the write of this zone's file only.
            if catch_unwind(AssertUnwindSafe(|| self.write_due(&apex))).is_err() {
                let about = ("file", &*apex.to_string());
                log_repeated!(
                    error,
                    ERROR,
                    about,
                    "zone {}: writing its file failed inside nomen; this is a bug",
                    apex
                );
            }
        }
    }

    /// Writes the file of a zone that is due, if the configuration still wants it. A failed write is retried
    /// after the same time.
    fn write_due(&self, apex: &ZoneName) {
        let Some(every) = self.shared.rules.load().get(apex).and_then(|rules| rules.write_file_every) else {
            return;
        };
        let is_frozen = lock(&self.shared.frozen).contains(apex);
        if is_frozen || self.write(apex, false).is_err() {
            self.shared.schedule.within(apex, every);
        }
    }

    /// Writes the version in service to the zone file. `force`: even if the file was edited.
    ///
    /// # Errors
    /// [`FileFault`], which is also logged.
    pub(super) fn write(&self, apex: &ZoneName, force: bool) -> Result<CurrentFile, FileFault> {
        let _one_at_a_time = lock(&self.shared.writing);
        let written = self.write_now(apex, force);
        if matches!(written, Err(FileFault::Stopping)) {
            return written;
        }
        let fault = written.as_ref().err().map(ToString::to_string);
        match (&written, &fault) {
            (Ok(CurrentFile { path, serial, records, written: true }), _) => {
                self.shared.counts.files.fetch_add(1, Relaxed);
                info!(records, "zone {}: serial {serial} is written to {}", apex, path.display());
            }
            (_, Some(fault)) => {
                self.shared.counts.files_failed.fetch_add(1, Relaxed);
                let about = ("file", &*apex.to_string());
                log_repeated!(error, ERROR, about, "zone {}: {fault}", apex);
            }
            _ => {}
        }
        let mut zones = lock(&self.shared.zones);
        if fault.is_some() || zones.contains_key(apex) {
            zones.entry(apex.clone()).or_default().file_fault = fault;
        }
        written
    }

    fn write_now(&self, apex: &ZoneName, force: bool) -> Result<CurrentFile, FileFault> {
        let state = self.shared.states.get(apex).ok_or(FileFault::NotLoaded)?;
        let ZoneText::File(path) = &state.spec.text else { return Err(FileFault::NoFile) };
        let newest = self.newest(apex)?.or_else(|| state.zone.clone()).ok_or(FileFault::NotLoaded)?;
        let signing = self.shared.signing_of(apex);
        let is_signed = signing.is_some();
        let newest = match signing {
            Some(signing) => self.data_of(apex, &newest, signing.policy.sync).map_err(FileFault::Unsigned)?,
            None => newest,
        };
        let current = |written| CurrentFile {
            path: path.to_path_buf(),
            serial: newest.serial(),
            records: newest.record_count(),
            written,
        };
        if !lock(&self.shared.stored).contains(apex) {
            return Ok(current(false));
        }
        match self.state(apex, path) {
            FileState::Known(serial) if serial == newest.serial() => return Ok(current(false)),
            FileState::Edited if !force => return Err(FileFault::Edited(path.to_path_buf())),
            _ => {}
        }
        let mut fault = None;
        let written = written::write(&newest, path, true, |stamp| {
            let is_edited = !force && self.state(apex, path) == FileState::Edited;
            fault = match is_edited {
                true => Some(FileFault::Edited(path.to_path_buf())),
                false => self.note_file(apex, path, stamp, newest.serial(), true).err(),
            };
            fault.is_none()
        });
        match (written, fault) {
            (Err(_), Some(fault)) => return Err(fault),
            (written, _) => written.map_err(FileFault::Write)?,
        }
        if is_signed {
            // The file has all that updates have changed.
            self.shared.note_for_signing(apex, |note| note.changed = false);
        }
        self.shared.publishing.wrote(apex.clone(), FileStamp::of(Arc::clone(path)));
        Ok(current(true))
    }

    /// Returns the data of a zone that is signed here, with the keys of others. `syncs`: whether signing
    /// makes its CDS and CDNSKEY records.
    fn data_of(&self, apex: &ZoneName, zone: &Zone, syncs: bool) -> Result<Arc<Zone>, SignFault> {
        let status = lock(&self.shared.signing).get(apex).cloned();
        let is_ours = |rdata: &[u8]| {
            // The flags of a key change.
            let is_it = |key: &ZoneKeyStatus| key.dnskey.get(3..) == rdata.get(3..);
            status.as_ref().is_none_or(|status| status.keys.iter().any(is_it))
        };
        let is_data = |rtype: Type, rdata: &[u8]| match rtype {
            Type::DNSKEY => !is_ours(rdata),
            Type::CDS | Type::CDNSKEY => !syncs,
            _ => false,
        };
        Ok(Arc::new(unsign(zone, zone.serial(), &is_data)?.zone))
    }

    /// Returns the newest version of a zone that updates are changing, once all earlier orders of the zone
    /// are done; `None` if no update has changed the zone since the start.
    fn newest(&self, apex: &ZoneName) -> Result<Option<Arc<Zone>>, FileFault> {
        let (reply, replied) = sync_channel(1);
        let _ = self.orders.send(Order::Zone(apex.clone(), Entry::Newest(reply)));
        replied.recv_timeout(THREAD_REPLY_TIMEOUT).map_err(|fault| match fault {
            RecvTimeoutError::Timeout => FileFault::Busy,
            // The thread has ended. All accepted updates of the zone are on disk.
            RecvTimeoutError::Disconnected => FileFault::Stopping,
        })
    }

    /// Returns the state of the file of a stored zone.
    pub(super) fn state(&self, apex: &ZoneName, path: &Path) -> FileState {
        let Ok(stamp) = Stamp::of(path) else { return FileState::Missing };
        let notes = lock(&self.shared.notes);
        let mut files = notes.get(apex).into_iter().flat_map(|note| &note.files);
        let known = files.find(|file| file.is_at(path, stamp));
        known.map_or(FileState::Edited, |file| FileState::Known(Serial(file.serial)))
    }

    /// Records this version of a zone's file. `beside`: keeps the entry of the version that is still at the
    /// path, until this one has replaced it.
    pub(super) fn note_file(
        &self,
        apex: &ZoneName,
        path: &Path,
        stamp: Stamp,
        serial: Serial,
        beside: bool,
    ) -> Result<(), FileFault> {
        let file = KnownFile::new(path, stamp, serial.0);
        let noted = lock(&self.shared.notes).change(apex, |note| {
            let old = if beside { Stamp::of(path).ok() } else { None };
            note.files.retain(|known| old.is_some_and(|old| known.is_at(path, old)));
            note.files.retain(|known| *known != file);
            note.files.insert(0, file);
        });
        noted.map_err(FileFault::Notes)
    }

    /// Records the file that was read, if its metadata could be read.
    pub(super) fn note_read(&self, apex: &ZoneName, file: Option<&FileStamp>, serial: Serial) {
        let Some((path, stamp)) = file.and_then(|file| Some((file.path(), file.stamp()?))) else { return };
        if let Err(fault) = self.note_file(apex, path, stamp, serial, false) {
            log_repeated!(
                warn,
                WARN,
                ("file not noted", &apex.to_string()),
                "zone {}: its file will be taken for one that was edited: {fault}",
                apex
            );
        }
    }

    /// Stops or resumes updates of a zone, also across restarts.
    ///
    /// # Errors
    /// [`FileFault::Notes`].
    pub(super) fn set_frozen(&self, apex: &ZoneName, frozen: bool) -> Result<(), FileFault> {
        lock(&self.shared.notes).change(apex, |note| note.frozen = frozen).map_err(FileFault::Notes)?;
        let mut zones = lock(&self.shared.frozen);
        if frozen {
            zones.insert(apex.clone())
        } else {
            zones.remove(apex)
        };
        let state = if frozen { "no updates, it is frozen" } else { "updates again" };
        info!("zone {}: it takes {state}", apex);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::managed::publishing::PublishHandle;

    #[test]
    fn a_server_that_stops_was_taken_for_a_thread_that_does_not_answer() {
        let state = tempfile::tempdir().expect("a folder");
        let notes = super::super::notes::Notes::open(state.path()).expect("notes");
        let (orders, taken) = std::sync::mpsc::channel();
        drop(taken);
        let (publishing, _published) = std::sync::mpsc::channel();
        let shared =
            Shared::new(notes, HashSet::new(), PublishHandle(publishing), Arc::default(), PathBuf::new());
        let files = ZoneFiles { shared: Arc::new(shared), orders };
        let newest = files.newest(&ZoneName::from(wire::Name::of_checked(b"\x01a\0")));
        assert!(matches!(newest, Err(FileFault::Stopping)), "{newest:?}");
    }

    #[test]
    fn zones_are_due_in_the_order_of_their_times_and_each_once() {
        let (mut due, begun) = (Due::default(), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        let [a, b] = [b"\x01a\0", b"\x01b\0"].map(|wire| ZoneName::from(wire::Name::of_checked(wire)));
        assert_eq!(due.next(at(0)), Err(None));
        assert!(due.add(&a, at(5)) && due.add(&b, at(3)));
        assert!(!due.add(&b, at(1)), "it is due already");
        assert_eq!(due.next(at(2)), Err(Some(at(3))));
        assert_eq!(due.next(at(9)), Ok(b.clone()));
        assert!(due.add(&b, at(6)));
        assert_eq!((due.next(at(9)), due.next(at(9))), (Ok(a), Ok(b)));
        assert_eq!(due.next(at(9)), Err(None));
    }
}
