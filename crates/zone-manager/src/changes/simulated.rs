//! The thread that changes zones, for simulations: it runs when the simulation says so.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::mpsc::Receiver;

use update::{GrantOrDeny, NameRelation, PolicyRule, RuleClient, RuleTypes, SerialPolicy, UpdatePolicy};

use super::edits::EditOrder;
use super::signing::SignOrder;
use super::*;
use zone_plan::ZoneSigning;

/// Dynamic updates on a simulated disk.
pub(crate) struct SimulatedChanges {
    worker: Worker,
    orders: Sender<Order>,
    shared: Arc<Shared>,
    stores: ZoneStores,
    rules: Arc<ZoneUpdates>,
}

/// Returns a policy that allows each client every change.
pub(super) fn everything() -> UpdatePolicy {
    let client = RuleClient::default();
    let rule =
        PolicyRule { action: GrantOrDeny::Grant, client, names: NameRelation::Zone, types: RuleTypes::Usual };
    UpdatePolicy::new([rule])
}

/// Returns rules that allow each client every change.
fn rules() -> ZoneUpdates {
    ZoneUpdates {
        policy: everything(),
        serial: SerialPolicy::Increment,
        history: 1000,
        write_file_every: None,
        api: true,
        delegations: None,
        signing: None,
    }
}

impl SimulatedChanges {
    /// Opens the stores on a disk. The notes are on the real disk, in `notes`.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        notes: &Path,
        background: &Arc<Background>,
        publishing: PublishHandle,
        states: Arc<ZoneStates>,
    ) -> Result<SimulatedChanges, StoreFault> {
        let (folders, held) = open_folders(disk, Path::new("/"))?;
        let stored = held.zones.into_iter().collect();
        let state = notes.to_owned();
        let notes = Notes::open(notes).expect("notes");
        let shared = Arc::new(Shared::new(notes, stored, publishing, states, state));
        let stores = open_stores(folders, &shared, background);
        let (orders, taken) = channel();
        let (of_worker, background) = (Arc::clone(&shared), Arc::clone(background));
        let worker = Worker::new(stores.clone(), taken, orders.clone(), of_worker, background);
        Ok(SimulatedChanges { worker, orders, shared, stores, rules: Arc::new(rules()) })
    }

    /// Sets the zones of the database.
    pub(crate) fn use_database(&self, database: &Arc<ZoneDatabase>) {
        self.shared.database.get_or_init(|| Arc::downgrade(database));
    }

    /// Has a zone signed.
    pub(crate) fn sign(&self, apex: &ZoneName, signing: &Arc<ZoneSigning>) {
        let signed = ZoneUpdates { signing: Some(Arc::clone(signing)), ..rules() };
        let mut all = UpdateRules::clone(&self.shared.rules.load());
        all.set(apex, Some(Arc::new(signed)));
        self.shared.rules.store(Arc::new(all));
    }

    fn sign_order(&self, apex: &ZoneName) -> SignOrder {
        SignOrder::of(self.shared.rules.load().get(apex).cloned().unwrap_or_default())
    }

    /// Sends an order to look at the keys and signatures of a zone.
    pub(crate) fn maintain(&self, apex: &ZoneName) {
        self.order(apex, Entry::Change(ChangeJob::Sign(Box::new(self.sign_order(apex)))));
    }

    /// Sends an operator's command. It may be refused.
    pub(crate) fn command(&self, apex: &ZoneName, command: SignCommand) {
        let (reply, _) = sync_channel(1);
        let order = SignOrder { command: Some((command, reply)), ..self.sign_order(apex) };
        self.order(apex, Entry::Change(ChangeJob::Sign(Box::new(order))));
    }

    /// Sends keys of the database.
    pub(crate) fn follow_keys(
        &self,
        database: &ZoneDatabase,
        apex: &ZoneName,
        zone: ::database::ZoneId,
        keys: &Arc<::database::ZoneKeySet>,
    ) {
        if database.set_keys(zone, keys) {
            self.maintain(apex);
        }
    }

    /// The keys and signatures of a zone, as far as they were looked at.
    pub(crate) fn signing(&self, apex: &ZoneName) -> Option<Arc<SigningStatus>> {
        lock(&self.shared.signing).get(apex).cloned()
    }

    /// Sends what the database has of a zone.
    pub(crate) fn follow(&self, apex: &ZoneName, zone: ::database::ZoneId, content: ::database::ZoneContent) {
        self.order(apex, Entry::Follow(zone, content));
    }

    /// Returns the stored version of a zone.
    pub(crate) fn load(&self, apex: &ZoneName, key: &HashKey) -> Result<Option<Arc<Zone>>, StoreFault> {
        Ok(read_stored(&self.stores, apex, key)?.map(|(zone, _)| zone))
    }

    /// Sends a request. `answer` gets whether it was accepted; it is dropped if there is no response.
    pub(crate) fn update(&self, request: UpdateRequest, answer: impl FnOnce(bool) + Send + 'static) {
        let apex = ZoneName::from(request.zone().as_name());
        let job = Job {
            apex: apex.clone(),
            request,
            rules: Arc::clone(&self.rules),
            key: None,
            client: IpAddr::V4(Ipv4Addr::LOCALHOST),
            certificate: None,
            answer: Box::new(move |result| answer(result.is_ok())),
            _waiting: Some(Waiting::new(&self.shared)),
        };
        self.order(&apex, Entry::Change(ChangeJob::Update(Box::new(job))));
    }

    /// Sends an edit. `answer` gets whether it was made; it is dropped if there is no result.
    pub(crate) fn edit(&self, apex: &ZoneName, edit: ZoneEdit, answer: impl FnOnce(bool) + Send + 'static) {
        let (rules, reply) = (Arc::clone(&self.rules), Box::new(move |end: EditEnd| answer(end.is_ok())));
        let waiting = Some(Waiting::new(&self.shared));
        let order = EditOrder { edit, rules, reply, _waiting: waiting };
        self.order(apex, Entry::Change(ChangeJob::Edit(Box::new(order))));
    }

    /// Changes a zone to the version in its file, `zone`.
    pub(crate) fn take_file(&self, apex: &ZoneName, zone: Arc<Zone>) {
        let (hold, _) = sync_channel(1);
        self.order(apex, Entry::Hold(hold));
        let rules = Arc::clone(&self.rules);
        let job =
            FileJob { apex: apex.clone(), zone, file: None, rules, when: TakeWhen::Anyway, is_new: true };
        self.order(apex, Entry::Change(ChangeJob::File(Box::new(job))));
    }

    /// Requests the result of the last [`take_file`](Self::take_file).
    pub(crate) fn taken(&self, apex: &ZoneName) -> Receiver<Option<TakeEnd>> {
        let (reply, replied) = sync_channel(1);
        self.order(apex, Entry::Taken(reply));
        replied
    }

    /// Requests the changes since a version.
    pub(crate) fn history(
        &self,
        apex: &ZoneName,
        from: Serial,
    ) -> Receiver<Result<Option<History>, StoreFault>> {
        self.stores.read_history(apex, from.into())
    }

    /// Stops the thread. The reply arrives once all jobs have ended.
    pub(crate) fn stop(&self) -> Receiver<()> {
        let (reply, replied) = sync_channel(1);
        let _ = self.orders.send(Order::Stop(reply));
        replied
    }

    fn order(&self, apex: &ZoneName, entry: Entry) {
        let _ = self.orders.send(Order::Zone(apex.clone(), entry));
    }

    /// Runs the waiting orders. Returns false if there was none.
    pub(crate) fn run(&mut self) -> bool {
        match self.worker.orders.try_recv() {
            Ok(order) => {
                self.worker.round(order);
                true
            }
            Err(_) => false,
        }
    }

    /// Has the thread look at a zone that is due. Returns false if there is none.
    pub(crate) fn look(&mut self) -> bool {
        let due = self.worker.due_order(Instant::now());
        due.map(|order| self.worker.round(order)).is_some()
    }

    /// Syncs the marks, as the thread does each second.
    pub(crate) fn sync_marks(&mut self) {
        self.worker.sync_marks();
    }

    /// Number of requests that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.counts.waiting.load(Relaxed)
    }

    /// Number of failed writes and compactions.
    pub(crate) fn failed(&self) -> u64 {
        self.shared.counts.failed.load(Relaxed)
    }
}
