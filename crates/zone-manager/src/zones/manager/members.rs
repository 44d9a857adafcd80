//! Zones added and removed while the server runs: those that catalog zones list, and those that operators
//! add. A change of one of them does not read the configuration and does not touch other zones.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use journal::RealDisk;
use tracing::{info, warn};
use transport::unix_now;
use wire::{Name, Serial, ViewName, ZoneName};
use wording::reason;
use zone::catalog::Change;

use super::{Asker, Purpose, ReloadFault, Reloaded, Removal, RoundReport, Summary, ZoneManager, answer, log};
use crate::changes::Leavings;
use crate::managed::publishing::Publishing;
use crate::managed::state::{ReadWhen, ZoneEvent};
use crate::managed::table::ManagedZone;
use crate::zones::added;
use crate::zones::created::{CreatedFiles, Leftover, ZoneCreation};
use crate::zones::documents::ZoneDocumentStore;
use crate::zones::membership::{MemberSteps, Membership};
use crate::zones::produce::{Produced, Producer, ProducerEvent};
use config::dnssec_policy::DnssecPolicies;
use config::peer_tls::PeerTls;
use config::zones::{ConfiguredZone, SharedKeys, Templates};
use config::{RejectedConfig, read_zone};
use serving::recursive::LocalRoot;
use telemetry::repeated::log_repeated;
use threads::sync::{lock, read, write};
use transfer::tsig::TsigKeys;
use zone_plan::{DatabasePlan, Listing, Origin, PlannedZone, WantedZones, ZoneFault, ZoneText, added_zone};

/// An operator's request about one zone.
pub(in crate::zones) enum ZoneChange {
    /// Serve a zone, given its `[[zone]]` block.
    Add(String),
    /// Create a zone.
    Create(Box<ZoneCreation>),
    /// Stop serving a zone.
    Remove(ZoneName),
}

/// Replies that wait until the versions of produced catalog zones before them are in service.
struct HeldReply {
    /// Number of the last version.
    after: u64,
    askers: Vec<Asker>,
    result: Reloaded,
}

/// State for zones that are added at run time.
pub(super) struct Joining {
    pub(super) membership: Membership,
    /// Makes the produced catalog zones.
    producer: Producer,
    held_replies: VecDeque<HeldReply>,
    /// Versions of catalog zones to read.
    pub(super) versions: Vec<(ZoneName, Arc<zone::Zone>)>,
    /// The zones that operators added.
    added: Vec<ConfiguredZone>,
    templates: Arc<Templates>,
    policies: Arc<DnssecPolicies>,
    /// The views of the configuration.
    views: Vec<ViewName>,
    keys: Arc<TsigKeys>,
    /// The state folder.
    state: Option<PathBuf>,
    /// The files of created zones in it.
    created: Option<CreatedFiles>,
    /// Documents that end with their zones.
    documents: Option<Arc<dyn ZoneDocumentStore>>,
    /// The resolver's copy of the root zone, if the server has one.
    pub(super) local_root: Option<Arc<LocalRoot>>,
    /// Whether the root zone is that copy.
    copies_root: bool,
    /// The response policy zones, and whether clients get answers from each.
    policy: HashMap<ZoneName, bool>,
    /// The keys of the zones of the database, if there is one.
    pub(super) database: Option<DatabasePlan>,
    /// Zones that the database does not list any more, and that are held back.
    pub(super) database_held: Vec<ZoneName>,
}

impl Joining {
    /// Reads the zones that were added at run time from the state folder.
    pub(super) fn open(
        state: Option<PathBuf>,
        documents: Option<Arc<dyn ZoneDocumentStore>>,
        local_root: Option<Arc<LocalRoot>>,
        producer: Producer,
    ) -> Joining {
        Joining {
            membership: Membership::open(state.as_deref()),
            producer,
            held_replies: VecDeque::new(),
            versions: Vec::new(),
            added: Vec::new(),
            templates: Arc::default(),
            policies: Arc::default(),
            views: Vec::new(),
            keys: Arc::default(),
            created: state.as_deref().map(|state| CreatedFiles::of(Arc::new(RealDisk), state)),
            state,
            documents,
            local_root,
            copies_root: false,
            policy: HashMap::new(),
            database: None,
            database_held: Vec::new(),
        }
    }

    /// Whether clients get no answers from a zone.
    fn is_hidden(&self, apex: &ZoneName) -> bool {
        self.membership.is_hidden(apex) || self.policy.get(apex) == Some(&false)
    }

    /// Checks that the configuration has the view of a zone.
    ///
    /// # Errors
    /// [`ReloadFault::Configuration`].
    pub(super) fn check_view(&self, apex: &ZoneName) -> Result<(), ReloadFault> {
        match apex.view().filter(|view| !self.views.iter().any(|known| known.as_str() == *view)) {
            Some(view) => Err(unfit([format!("there is no [[view]] named `{view}`")].into_iter())),
            None => Ok(()),
        }
    }

    /// Whether versions of produced catalog zones are being stored.
    pub(super) fn is_storing(&self) -> bool {
        !self.producer.has_stored(self.producer.last_order())
    }
}

impl ZoneManager {
    /// Sets the entries of produced catalog zones: those of a configuration, and for zones that are held back
    /// their current ones.
    pub(super) fn list_members(&mut self, wanted: &mut WantedZones, held: &[ZoneName]) {
        let producer = &mut self.joining.producer;
        let mut listings = std::mem::take(&mut wanted.listings);
        let listed = |zone: &ZoneName| Some((zone.clone(), Arc::clone(producer.listing(zone)?)));
        listings.extend(held.iter().filter_map(listed));
        producer.configure(std::mem::take(&mut wanted.produced), listings, &self.key);
    }

    /// Makes new versions of the produced catalog zones whose members have changed. They go into service once
    /// they are stored; [`reply`](Self::reply) waits for that.
    pub(super) fn produce(&mut self, removal: Removal) {
        let made = self.joining.producer.produce(removal);
        self.serve_produced(made);
    }

    /// Handles an event of the producer, and sends the replies that have waited for it.
    pub(super) fn produced(&mut self, event: ProducerEvent) {
        let made = self.joining.producer.ended(event);
        self.serve_produced(made.into_iter().collect());
        let Joining { producer, held_replies, .. } = &mut self.joining;
        let is_due = |held: &HeldReply| producer.has_stored(held.after);
        let due = held_replies.iter().take_while(|held| is_due(held)).count();
        if due == 0 {
            return;
        }
        let unpublished = self.unpublished.take().map(ReloadFault::Unpublished);
        for HeldReply { askers, result, .. } in held_replies.drain(..due) {
            answer(askers, &unpublished.clone().map_or(result, Err));
        }
    }

    /// Sends the replies once the versions of produced catalog zones made so far are in service.
    pub(super) fn reply(&mut self, askers: Vec<Asker>, result: Reloaded) {
        if askers.is_empty() || !self.joining.is_storing() {
            return answer(askers, &result);
        }
        let after = self.joining.producer.last_order();
        self.joining.held_replies.push_back(HeldReply { after, askers, result });
    }

    /// Puts versions of produced catalog zones into service, or reports why there are none.
    fn serve_produced(&mut self, made: Vec<(ZoneName, Produced)>) {
        let table = Arc::clone(&self.table);
        self.note_catalogs();
        if made.is_empty() {
            return;
        }
        for (apex, made) in made {
            let made = made.map_err(|fault| Arc::new(ZoneFault::without_place(fault.to_string())));
            let event = ZoneEvent::Produced(made, SystemTime::now());
            let mut states = write(&table.states.zones);
            let actions = states.get_mut(&apex).map(|zone| zone.state.handle(event));
            let decided = self.executor.carry_out(&apex, actions.unwrap_or_default());
            drop(states);
            log(&apex, &decided.notices, false);
            self.load(decided.loads);
        }
        self.publish();
    }

    fn note_catalogs(&self) {
        let Joining { membership, producer, .. } = &self.joining;
        *lock(&self.table.catalogs) = membership.status().into_iter().chain(producer.status()).collect();
    }

    /// Adds the members of catalog zones to the zones of a configuration, with their rules and other servers.
    /// Removes the state of members that were reset.
    pub(super) fn join_members(&mut self, wanted: &mut WantedZones, removal: Removal) {
        let joining = &mut self.joining;
        joining.added = std::mem::take(&mut wanted.added);
        (joining.templates, joining.keys) =
            (Arc::clone(&wanted.templates), Arc::clone(&wanted.transfers.keys));
        joining.policies = Arc::clone(&wanted.policies);
        joining.views = wanted.views.iter().map(|rule| rule.name.clone()).collect();
        let hidden: HashSet<ZoneName> = wanted
            .specs
            .iter()
            .map(|spec| &spec.apex)
            .filter(|apex| joining.is_hidden(apex))
            .cloned()
            .collect();
        let policy = std::mem::replace(&mut joining.policy, std::mem::take(&mut wanted.policy_zones));
        joining.membership.configure(std::mem::take(&mut wanted.catalogs));
        let configured: HashSet<&ZoneName> = wanted.specs.iter().map(|spec| &spec.apex).collect();
        let steps = joining.membership.settle(|apex| configured.contains(apex), removal);
        let gone = steps.removed.iter().filter(|apex| !configured.contains(apex)).chain(&steps.reset);
        let gone: Vec<ZoneName> = gone.cloned().collect();
        steps.reset.iter().for_each(|apex| joining.producer.renew(apex));
        for PlannedZone { spec, peers, grants, queries, updates, listing } in joining.membership.all() {
            wanted.listings.extend(listing.map(|listing| (spec.apex.clone(), listing)));
            match peers {
                Some(peers) => wanted.peers.set(&spec.apex, peers),
                None => wanted.peers.remove(&spec.apex),
            }
            wanted.transfers.set(&spec.apex, grants);
            wanted.queries.set(&spec.apex, queries);
            wanted.updates.set(&spec.apex, updates);
            wanted.specs.push(spec);
        }
        // Before the steps of zones that are new, or shown from now on.
        self.executor.send(Publishing::Queries(std::mem::take(&mut wanted.queries)));
        self.hide_and_show(&hidden, &policy);
        if let Some(secondaries) = &self.executor.secondaries {
            // Zones that were members before this process started have no state, but may have stores.
            let before = gone.iter().filter(|apex| self.table.get(apex).is_none());
            secondaries.forget(before.cloned().collect());
        }
        self.leave(gone.iter());
    }

    /// Puts catalog zones and response policy zones into service or takes them out of it, as configured, and
    /// has those read that were not yet. `hidden` and `policy` are those of the configuration before.
    fn hide_and_show(&mut self, hidden: &HashSet<ZoneName>, policy: &HashMap<ZoneName, bool>) {
        let table = Arc::clone(&self.table);
        let states = read(&table.states.zones);
        let joining = &self.joining;
        self.executor.change_special(|special| {
            special.catalogs = joining.membership.catalogs();
            let no_answers = joining.policy.iter().filter(|(_, answers)| !**answers);
            special.hidden = joining.membership.hidden();
            special.hidden.extend(no_answers.map(|(apex, _)| apex.clone()));
            special.policy = joining.policy.keys().cloned().collect();
        });
        for (apex, zone) in states.iter() {
            let Some(version) = &zone.state.status().zone else { continue };
            match (policy.contains_key(apex), joining.policy.contains_key(apex), &self.executor.policy_zones)
            {
                (false, true, Some(zones)) => zones.take(Change::Serve(Arc::clone(version))),
                (true, false, Some(zones)) => zones.take(removal_of(apex)),
                _ => {}
            }
            match (hidden.contains(apex), joining.is_hidden(apex)) {
                (false, true) => self.executor.step(apex, removal_of(apex), false),
                (true, false) => self.executor.step(apex, Change::Serve(Arc::clone(version)), false),
                _ => {}
            }
        }
        let unread = self.joining.membership.unread();
        let versions =
            unread.filter_map(|apex| Some((apex.clone(), states.get(apex)?.state.status().zone.clone()?)));
        self.joining.versions = versions.collect();
    }

    /// Makes the root zone a copy for the resolver, or one that clients get answers from, as configured.
    pub(super) fn keep_root(&mut self, wanted: &WantedZones) {
        let copies = wanted.copies_root();
        let Some(local_root) = self.joining.local_root.clone() else { return };
        local_root.want(copies);
        if std::mem::replace(&mut self.joining.copies_root, copies) == copies {
            return;
        }
        let root: ZoneName = Name::ROOT.into();
        let version = {
            let states = read(&self.table.states.zones);
            self.executor.change_special(|special| special.copies_root = copies);
            let Some(zone) = states.get(&root) else { return };
            let state = zone.state.status();
            let spec = wanted.specs.iter().find(|spec| spec.apex == root);
            // A zone with another source is loaded again.
            let same = spec.is_some_and(|spec| spec.text == state.spec.text);
            let version = state.zone.clone().filter(|_| same);
            match (copies, &version) {
                (true, _) => self.executor.step(&root, removal_of(&root), false),
                (false, Some(version)) => {
                    self.executor.step(&root, Change::Serve(Arc::clone(version)), false)
                }
                (false, None) => {}
            }
            version
        };
        version.into_iter().filter(|_| copies).for_each(|version| local_root.take(Change::Serve(version)));
    }

    /// Hands a step of the root zone to the resolver's copy, if it is one.
    pub(super) fn take_root(&self, change: Change) {
        let local_root = self.joining.local_root.iter().filter(|_| self.joining.copies_root);
        local_root.for_each(|local_root| local_root.take(change.clone()));
        self.take_root_again();
    }

    /// Starts a transfer of the root zone, whatever the serial numbers, if the present version must not be
    /// used.
    pub(super) fn take_root_again(&self) {
        let is_refused = self.joining.local_root.as_ref().is_some_and(|local_root| local_root.is_refused());
        let secondaries = self.executor.secondaries.as_ref();
        if let (true, true, Some(secondaries)) = (self.joining.copies_root, is_refused, secondaries) {
            secondaries.take_again(&Name::ROOT.into());
        }
    }

    /// Reads the new versions of catalog zones, if any, and carries out the changes.
    pub(super) fn read_catalogs(&mut self) {
        if self.joining.versions.is_empty() {
            return;
        }
        for (apex, version) in std::mem::take(&mut self.joining.versions) {
            self.joining.membership.read(&apex, &version);
        }
        self.settle();
    }

    fn settle(&mut self) {
        let table = Arc::clone(&self.table);
        let MemberSteps { removed, reset, wanted } = {
            let states = read(&table.states.zones);
            let is_configured = |apex: &ZoneName| {
                let origin = states.get(apex).map(|zone| &zone.state.status().spec.origin);
                origin.is_some_and(|origin| !matches!(origin, Origin::Catalog(_)))
            };
            self.joining.membership.settle(is_configured, Removal::HoldBack)
        };
        self.note_catalogs();
        reset.iter().for_each(|apex| self.joining.producer.renew(apex));
        self.leave(removed.iter().chain(&reset));
        self.want(wanted);
        // If a round of all zones is in progress, its end does this.
        if self.round.is_none() {
            self.produce(Removal::HoldBack);
        }
    }

    /// Removes these zones and all that is stored of them.
    pub(super) fn leave<'a>(&mut self, zones: impl Iterator<Item = &'a ZoneName>) {
        let table = Arc::clone(&self.table);
        let (mut gone, mut taken) = (Vec::new(), Vec::new());
        {
            let mut states = write(&table.states.zones);
            for apex in zones {
                self.joining.producer.list(apex, None);
                let Some(mut zone) = states.remove(apex) else { continue };
                if zone.awaited {
                    self.round.iter_mut().for_each(|round| round.waiting -= 1);
                }
                let spec = &zone.state.status().spec;
                info!("zone {} is removed ({})", spec.apex, spec.origin);
                if spec.text == ZoneText::Primaries {
                    taken.push(apex.clone());
                }
                gone.push(apex.clone());
                self.drop_single(apex);
                let actions = zone.state.handle(ZoneEvent::Unwanted);
                self.executor.carry_out(apex, actions);
            }
        }
        if gone.is_empty() {
            return;
        }
        if let Some(secondaries) = &self.executor.secondaries {
            secondaries.forget(taken);
            secondaries.change(gone.iter().map(|apex| (apex.clone(), None)).collect());
        }
        if let Some(transfers) = &self.transfers {
            transfers.change(gone.iter().map(|apex| (apex.clone(), None)));
        }
        if let Some(differences) = &self.executor.differences {
            gone.iter().for_each(|apex| differences.forget(apex));
        }
        for apex in &gone {
            if let Err(fault) = self.forget_document(apex) {
                warn!("zone {apex}: its comments and metadata are not removed: {fault}");
            }
        }
        if let Some(changes) = &self.executor.changes {
            changes.change(gone.into_iter().map(|apex| (apex, None)));
        }
    }

    /// Removes the document of a zone that does not exist.
    pub(super) fn forget_document(&self, apex: &ZoneName) -> Result<(), ReloadFault> {
        let documents = self.joining.documents.as_ref();
        documents.map_or(Ok(()), |documents| documents.forget(apex)).map_err(|fault| unsaved(&fault))
    }

    /// Adds these zones, or sets their new properties.
    pub(super) fn want(&mut self, zones: Vec<PlannedZone>) {
        if zones.is_empty() {
            return;
        }
        if let Some(secondaries) = &self.executor.secondaries {
            secondaries
                .change(zones.iter().map(|zone| (zone.spec.apex.clone(), zone.peers.clone())).collect());
        }
        // Before the first step of each zone.
        let queries = zones.iter().map(|zone| (zone.spec.apex.clone(), zone.queries.clone()));
        self.executor.send(Publishing::ChangedQueries(queries.collect()));
        if let Some(transfers) = &self.transfers {
            transfers.change(zones.iter().map(|zone| (zone.spec.apex.clone(), zone.grants.clone())));
        }
        if let Some(changes) = &self.executor.changes {
            changes.change(zones.iter().map(|zone| (zone.spec.apex.clone(), zone.updates.clone())));
        }
        let (table, mut loads) = (Arc::clone(&self.table), Vec::new());
        {
            let mut states = write(&table.states.zones);
            for PlannedZone { spec, listing, .. } in zones {
                self.joining.producer.list(&spec.apex, listing);
                let zone = states.entry(spec.apex.clone()).or_insert_with(|| ManagedZone::new(spec.clone()));
                zone.state.wanted_as(&spec);
                let text = spec.text.clone();
                let actions = zone.state.handle(ZoneEvent::Wanted(text, ReadWhen::IfChanged));
                loads.extend(self.executor.carry_out(&spec.apex, actions).loads);
                // A zone that is being added has a round of its own.
                self.round.iter_mut().filter(|_| spec.origin != Origin::Added).for_each(|round| {
                    if zone.state.is_awaitable() && !std::mem::replace(&mut zone.awaited, true) {
                        round.waiting += 1;
                        round.report.summary.zones += 1;
                    }
                });
            }
        }
        self.load(loads);
    }

    /// Carries out an operator's request about one zone.
    pub(super) fn change(&mut self, change: ZoneChange, reply: Asker) {
        let done = match change {
            ZoneChange::Add(text) => self.to_be_added(text).map(Some),
            ZoneChange::Create(zone) => self.to_be_created(&zone).map(Some),
            ZoneChange::Remove(apex) => self.remove_added(&apex).map(|()| None),
        };
        let done = match done {
            Ok(Some((zone, mut planned))) => {
                // The zone is listed in a catalog zone once it is in service.
                let purpose = Purpose::Add(Box::new(zone), planned.listing.take());
                self.begin_single(&planned.spec.apex, purpose, vec![reply]);
                return self.want(vec![planned]);
            }
            Ok(None) => Ok(()),
            Err(fault) => Err(fault),
        };
        let summary = Summary { removed: 1, ..Summary::default() };
        self.reply(vec![reply], done.map(|()| Arc::new(RoundReport { summary, ..RoundReport::default() })));
    }

    fn to_be_added(&self, text: String) -> Result<(ConfiguredZone, PlannedZone), ReloadFault> {
        let joining = &self.joining;
        if joining.state.is_none() {
            return Err(ReloadFault::NoState);
        }
        let (templates, policies) = (&*joining.templates, &*joining.policies);
        let shared = SharedKeys { templates, policies, has_state: joining.state.is_some() };
        let zone = read_zone("zone add", text, shared).map_err(|RejectedConfig { faults, .. }| {
            unfit(faults.iter().map(|fault| fault.message.clone()))
        })?;
        joining.check_view(&zone.apex())?;
        let planned = added_zone(&zone, shared, &joining.keys, &mut PeerTls::default())
            .map_err(|faults| unfit(faults.iter().map(|fault| fault.message.clone())))?;
        if let Some(listing) = planned.listing.as_ref().filter(|of| !joining.producer.makes(&of.catalog)) {
            let message = format!("there is no zone {} with `catalog-produce`", listing.catalog);
            return Err(unfit([message].into_iter()));
        }
        if planned.spec.text == ZoneText::Produced {
            let message = "only the configuration can have a zone with `catalog-produce`".to_owned();
            return Err(unfit([message].into_iter()));
        }
        match self.table.get(&planned.spec.apex) {
            Some(state) => Err(ReloadFault::Served(state.spec.origin.clone())),
            // An earlier zone of this name may have left one.
            None => self.forget_document(&planned.spec.apex).map(|()| (zone, planned)),
        }
    }

    /// Ends the addition of a zone after the round that loads it: the zone stays if it is good and can be
    /// written to the state folder.
    pub(super) fn added(
        &mut self,
        zone: ConfiguredZone,
        listing: Option<Arc<Listing>>,
        round: Reloaded,
    ) -> Reloaded {
        let (apex, is_created) = (zone.apex(), self.is_created(&zone));
        let state = self.table.get(&apex);
        if let Some(state) = state.as_ref().filter(|state| state.spec.origin != Origin::Added) {
            // A reload found the zone in another source in the meantime, whose journal must stay.
            let files = self.joining.created.as_ref().filter(|_| is_created);
            files.iter().for_each(|files| _ = files.remove(&apex));
            return Err(ReloadFault::Served(state.spec.origin.clone()));
        }
        let fault = state.and_then(|state| state.fault.clone());
        let kept = match (round, fault) {
            (Err(fault), _) => Err(fault),
            (Ok(_), Some(fault)) => Err(ReloadFault::Zone(fault)),
            (Ok(report), None) => {
                self.joining.added.push(zone);
                let saved = self.save_added().inspect_err(|_| drop(self.joining.added.pop()));
                saved.map(|()| report)
            }
        };
        match &kept {
            Ok(_) => {
                info!("zone {} was added", apex);
                self.joining.producer.list(&apex, listing);
                self.produce(Removal::HoldBack);
            }
            Err(fault) => {
                let about = ("not added", &*apex.to_string());
                log_repeated!(warn, WARN, about, "zone {} is not added: {fault}", apex);
                self.leave([&apex].into_iter());
                self.publish();
                if is_created {
                    // A key may be one that was there before.
                    self.clean_up(&apex, Leavings::Remove);
                }
            }
        }
        kept
    }

    fn remove_added(&mut self, apex: &ZoneName) -> Result<(), ReloadFault> {
        let state = self.table.get(apex).ok_or(ReloadFault::NoSuchZone)?;
        if state.spec.origin != Origin::Added {
            return Err(ReloadFault::NotAdded(state.spec.origin.clone()));
        }
        // It may not be in the list of added zones yet.
        let file = state.spec.text.file();
        let files = self.joining.created.clone();
        let files = files.filter(|files| file.is_some_and(|file| files.has(apex, file)));
        files.iter().try_for_each(|files| files.begin_removal(apex)).map_err(|fault| unsaved(&fault))?;
        let stay = |zone: &ConfiguredZone| zone.apex() != *apex;
        let before = self.joining.added.clone();
        self.joining.added.retain(stay);
        if let Err(fault) = self.save_added() {
            self.joining.added = before;
            files.iter().for_each(|files| files.cancel_removal(apex));
            return Err(fault);
        }
        self.leave([apex].into_iter());
        if files.is_some() {
            self.clean_up(apex, Leavings::RemoveWithKeys);
        }
        // A catalog zone may list the zone, and now become its owner.
        self.settle();
        self.publish();
        Ok(())
    }

    /// Prepares the creation of a zone: writes the file of its first records.
    fn to_be_created(&self, zone: &ZoneCreation) -> Result<(ConfiguredZone, PlannedZone), ReloadFault> {
        let files = self.joining.created.as_ref().ok_or(ReloadFault::NoState)?;
        let added = self.to_be_added(zone.block(&files.path(&zone.apex)))?;
        let policy = added.1.updates.as_ref().map(|updates| updates.serial).unwrap_or_default();
        let text = zone.text(policy.next(Serial(0), unix_now()));
        let Some(text) = text.map_err(|why| unfit([why].into_iter()))? else { return Ok(added) };
        let changes = self.executor.changes.as_ref().ok_or(ReloadFault::NoState)?;
        let apex = &zone.apex;
        let aside =
            changes.forget(apex, Leavings::SetAside).map_err(|why| ReloadFault::Unsaved(why.into()))?;
        if let Some(aside) = aside {
            let shown = aside.display();
            warn!(
                "zone {apex}: it is created, and the journal of an earlier zone of this name is now {shown}"
            );
        }
        files.write(apex, &text).map_err(|fault| {
            // What is there is removed at the next start, or replaced.
            let _ = files.remove(apex);
            unsaved(&fault)
        })?;
        Ok(added)
    }

    /// Whether a zone was created by a program, with its first records.
    fn is_created(&self, zone: &ConfiguredZone) -> bool {
        let files = self.joining.created.as_ref();
        let file = zone.file.value.as_ref();
        files.zip(file).is_some_and(|(files, file)| files.has(&zone.apex(), file))
    }

    /// Removes what is stored of a created zone that does not exist any more.
    fn clean_up(&self, apex: &ZoneName, leavings: Leavings) {
        let Some(files) = &self.joining.created else { return };
        let forgotten =
            self.executor.changes.as_ref().map_or(Ok(None), |changes| changes.forget(apex, leavings));
        let removed = forgotten.and_then(|_| files.remove(apex).map_err(|fault| reason(&fault)));
        if let Err(fault) = removed {
            warn!("zone {apex}: what is stored of it is not removed before the next start: {fault}");
        }
    }

    /// Removes what a crash has left of zones that were being created or removed.
    pub(super) fn clean_up_after_crash(&self, wanted: &WantedZones) {
        let Some(files) = &self.joining.created else { return };
        let exist: HashSet<&ZoneName> = wanted.specs.iter().map(|spec| &spec.apex).collect();
        match files.leftovers(|apex| exist.contains(apex)) {
            Err(fault) => warn!("the folder of created zones cannot be read: {}", reason(&fault)),
            Ok(leftovers) => leftovers.iter().for_each(|Leftover { apex, was_removed }| {
                info!("zone {apex}: it was not created or removed completely, and the rest of it is removed");
                let leavings = if *was_removed { Leavings::RemoveWithKeys } else { Leavings::Remove };
                self.clean_up(apex, leavings);
                if let Err(fault) = self.forget_document(apex) {
                    warn!("zone {apex}: its comments and metadata are not removed: {fault}");
                }
            }),
        }
    }

    fn save_added(&self) -> Result<(), ReloadFault> {
        let folder = self.joining.state.as_ref().ok_or(ReloadFault::NoState)?;
        added::save(folder, &self.joining.added).map_err(|fault| unsaved(&fault))
    }
}

/// Returns the step that ends the service of a zone.
fn removal_of(apex: &ZoneName) -> Change {
    Change::Remove(Box::new(apex.as_name().to_buf()))
}

fn unsaved(fault: &std::io::Error) -> ReloadFault {
    ReloadFault::Unsaved(fault.to_string().into())
}

pub(super) fn unfit(messages: impl Iterator<Item = String>) -> ReloadFault {
    ReloadFault::Configuration(messages.collect::<Vec<_>>().join("\n").into())
}
