//! Schedules many secondary zones, with limits on concurrent work.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use wire::UnixTime;

use super::RandomNumbers;
use super::zone::{SecondaryAction, SecondaryEvent, SecondaryZone};

/// A primary server, which several zones may share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PrimaryId(pub u32);

/// A zone of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SecondaryId(u32);

/// Limits on zones with work under way, each at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecondaryLimits {
    /// In total.
    pub in_all: usize,
    /// Per primary.
    pub per_primary: usize,
}

impl Default for SecondaryLimits {
    fn default() -> Self {
        SecondaryLimits { in_all: 64, per_primary: 8 }
    }
}

/// A zone and its work under way.
struct Entry {
    zone: SecondaryZone,
    primaries: Box<[PrimaryId]>,
    /// The time of its entry in the heap; `None` if it has none.
    queued: Option<UnixTime>,
    /// The primary whose slot it holds.
    holds: Option<PrimaryId>,
    /// The action for which it waits for a slot.
    waits: Option<SecondaryAction>,
}

/// A primary, with its running and waiting zones.
#[derive(Default)]
struct PrimaryLoad {
    running: usize,
    waiting: VecDeque<SecondaryId>,
    /// Whether it is in [`SecondaryScheduler::turns`].
    has_turn: bool,
}

/// Schedules many zones. Takes time and events; returns actions from [`poll`](Self::poll), one at a time, no
/// more at once than the limits allow. Each primary has its own queue of waiting zones, so that a slow
/// primary delays no zones of others.
pub struct SecondaryScheduler {
    limits: SecondaryLimits,
    /// `None` for a removed zone.
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    heap: BinaryHeap<Reverse<(UnixTime, u32)>>,
    loads: HashMap<PrimaryId, PrimaryLoad>,
    running: usize,
    /// Primaries with waiting zones, each once.
    turns: VecDeque<PrimaryId>,
    /// Actions ready for [`poll`](Self::poll).
    ready: VecDeque<(SecondaryId, SecondaryAction)>,
}

impl SecondaryScheduler {
    /// Creates a scheduler without zones.
    pub fn new(limits: SecondaryLimits) -> SecondaryScheduler {
        SecondaryScheduler {
            limits: SecondaryLimits { in_all: limits.in_all.max(1), per_primary: limits.per_primary.max(1) },
            entries: Vec::new(),
            free: Vec::new(),
            heap: BinaryHeap::new(),
            loads: HashMap::new(),
            running: 0,
            turns: VecDeque::new(),
            ready: VecDeque::new(),
        }
    }

    /// Sets the limits. Work under way continues.
    pub fn set_limits(&mut self, limits: SecondaryLimits) {
        self.limits =
            SecondaryLimits { in_all: limits.in_all.max(1), per_primary: limits.per_primary.max(1) };
        let waiting: Vec<PrimaryId> = self.loads.keys().copied().collect();
        waiting.into_iter().for_each(|primary| self.take_turn(primary));
        self.fill();
    }

    /// Adds a zone; `primaries` has one entry for each primary in the zone's rules.
    pub fn add(&mut self, zone: SecondaryZone, primaries: &[PrimaryId]) -> SecondaryId {
        let entry = Entry { zone, primaries: primaries.into(), queued: None, holds: None, waits: None };
        let id = match self.free.pop() {
            Some(id) => SecondaryId(id),
            None => {
                self.entries.push(None);
                SecondaryId(self.entries.len() as u32 - 1)
            }
        };
        self.entries[id.0 as usize] = Some(entry);
        self.queue(id);
        id
    }

    /// Removes a zone. The caller has to cancel its work under way; events of the zone are ignored until its
    /// id is reused.
    pub fn remove(&mut self, id: SecondaryId) -> Option<SecondaryZone> {
        let entry = self.entries.get_mut(id.0 as usize)?.take()?;
        self.ready.retain(|(other, _)| *other != id);
        if entry.waits.is_some() {
            for load in self.loads.values_mut() {
                load.waiting.retain(|other| *other != id);
            }
        }
        self.release(entry.holds);
        self.free.push(id.0);
        Some(entry.zone)
    }

    /// Returns the zone.
    pub fn zone(&self, id: SecondaryId) -> Option<&SecondaryZone> {
        Some(&self.entries.get(id.0 as usize)?.as_ref()?.zone)
    }

    /// When [`poll`](Self::poll) has an action, unless an event comes first.
    pub fn due(&mut self) -> Option<UnixTime> {
        if !self.ready.is_empty() {
            return Some(UnixTime::EPOCH);
        }
        while let Some(&Reverse((at, id))) = self.heap.peek() {
            if self.is_current(at, id) {
                return Some(at);
            }
            self.heap.pop();
        }
        None
    }

    /// A lower bound of [`due`](Self::due), which may include an outdated entry of the heap.
    pub fn next_due(&self) -> Option<UnixTime> {
        match self.ready.is_empty() {
            true => self.heap.peek().map(|Reverse((at, _))| *at),
            false => Some(UnixTime::EPOCH),
        }
    }

    /// Returns the next action, if there is one at `now`. Call until it returns `None`.
    pub fn poll(&mut self, now: UnixTime) -> Option<(SecondaryId, SecondaryAction)> {
        while self.ready.is_empty() {
            if self.due().is_none_or(|at| at > now) {
                return None;
            }
            let Reverse((_, id)) = self.heap.pop()?;
            let Some(entry) = self.entries.get_mut(id as usize).and_then(Option::as_mut) else { continue };
            entry.queued = None;
            let action = entry.zone.poll(now);
            self.act(SecondaryId(id), action);
        }
        self.ready.pop_front()
    }

    /// Handles an event of a zone; [`poll`](Self::poll) returns the resulting action.
    pub fn event(
        &mut self,
        id: SecondaryId,
        event: SecondaryEvent,
        now: UnixTime,
        random: RandomNumbers<'_>,
    ) {
        let Some(entry) = self.entries.get_mut(id.0 as usize).and_then(Option::as_mut) else { return };
        let action = entry.zone.event(event, now, random);
        self.act(id, action);
    }

    /// Number of zones with a slot, and of zones that wait for one.
    pub fn load(&self) -> (usize, usize) {
        (self.running, self.loads.values().map(|load| load.waiting.len()).sum())
    }

    /// Starts the zone's action if a slot is free, otherwise queues it, and schedules the zone's next time.
    fn act(&mut self, id: SecondaryId, action: Option<SecondaryAction>) {
        let Some(entry) = self.entries.get_mut(id.0 as usize).and_then(Option::as_mut) else { return };
        let place = |primary: usize| entry.primaries.get(primary).copied().unwrap_or(PrimaryId(u32::MAX));
        match action {
            Some(SecondaryAction::Expire) => self.ready.push_back((id, SecondaryAction::Expire)),
            Some(
                action @ (SecondaryAction::Probe { primary } | SecondaryAction::Transfer { primary, .. }),
            ) => {
                let wanted = place(primary);
                if entry.holds == Some(wanted) {
                    self.ready.push_back((id, action));
                } else {
                    entry.waits = Some(action);
                    let held = entry.holds.take();
                    self.loads.entry(wanted).or_default().waiting.push_back(id);
                    self.take_turn(wanted);
                    self.release(held);
                    self.fill();
                }
            }
            None if entry.zone.is_under_way() => {}
            None => {
                let held = entry.holds.take();
                self.release(held);
            }
        }
        self.queue(id);
    }

    /// Releases a slot and assigns it to a waiting zone.
    fn release(&mut self, held: Option<PrimaryId>) {
        let Some(primary) = held else { return };
        self.running -= 1;
        if let Some(load) = self.loads.get_mut(&primary) {
            load.running -= 1;
        }
        self.take_turn(primary);
        self.fill();
    }

    /// Queues a primary with waiting zones for its turn.
    fn take_turn(&mut self, primary: PrimaryId) {
        let Some(load) = self.loads.get_mut(&primary) else { return };
        if load.waiting.is_empty() && load.running == 0 {
            self.loads.remove(&primary);
        } else if !load.waiting.is_empty() && !load.has_turn && load.running < self.limits.per_primary {
            load.has_turn = true;
            self.turns.push_back(primary);
        }
    }

    /// Assigns free slots to waiting zones, primary by primary.
    fn fill(&mut self) {
        while self.running < self.limits.in_all {
            let Some(primary) = self.turns.pop_front() else { return };
            let Some(load) = self.loads.get_mut(&primary) else { continue };
            load.has_turn = false;
            if load.running >= self.limits.per_primary {
                continue;
            }
            if let Some(id) = load.waiting.pop_front() {
                if let Some(entry) = self.entries.get_mut(id.0 as usize).and_then(Option::as_mut)
                    && let Some(action) = entry.waits.take()
                {
                    entry.holds = Some(primary);
                    load.running += 1;
                    self.running += 1;
                    self.ready.push_back((id, action));
                }
                self.take_turn(primary);
            }
        }
    }

    /// Puts a zone into the heap for its next time.
    fn queue(&mut self, id: SecondaryId) {
        let Some(entry) = self.entries.get_mut(id.0 as usize).and_then(Option::as_mut) else { return };
        if let Some(due) = entry.zone.due()
            && entry.queued != Some(due)
        {
            entry.queued = Some(due);
            self.heap.push(Reverse((due, id.0)));
        }
    }

    /// Whether an entry of the heap is still valid.
    fn is_current(&self, at: UnixTime, id: u32) -> bool {
        let entry = self.entries.get(id as usize).and_then(Option::as_ref);
        entry.is_some_and(|entry| entry.queued == Some(at) && entry.zone.due() == Some(at))
    }
}
