//! The thread that fetches lists with a URL: at the start those whose stored version is old, then each when
//! it is due. Texts that arrive about the same time are compiled together.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use fetch::{FetchFault, FetchRequest, Fetched, Validators, fetch};
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep};
use tracing::error;
use transport::unix_now;

use super::Recursive;
use super::fetched_lists::{DueFetch, FetchedText};
use super::lists::{Lists, RefreshedLists};
use crate::hosts::ServerHosts;
use config::lists::{ListFetching, ListSource};
use threads::sync::lock;
use wording::reason;

/// Most fetches at a time.
const MAX_FETCHES: usize = 4;
/// Most bytes of texts that wait to be compiled; no further fetch begins then.
const MAX_WAITING_BYTES: usize = 256 * 1024 * 1024;
/// Longest time that a text waits for others, to be compiled with them.
const GATHER_TIME: Duration = Duration::from_millis(500);
/// Longest sleep of the thread, since the wall clock may be set.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// A message to the thread.
pub(super) enum ListOrder {
    /// The configuration has changed.
    Look,
    /// Fetch or read these lists now.
    Refresh(BTreeSet<String>, oneshot::Sender<RefreshedLists>),
    /// Stop the thread.
    Stop,
}

/// An order to refresh lists that is not complete.
struct Refresh {
    left: BTreeSet<String>,
    done: RefreshedLists,
    reply: Option<oneshot::Sender<RefreshedLists>>,
}

/// The list that a task fetches.
struct InFlight {
    name: String,
    fetching: ListFetching,
    version: Validators,
}

/// The state of the thread.
struct ListFetcher {
    recursive: Weak<Recursive>,
    hosts: Arc<ServerHosts>,
    tasks: JoinSet<Result<Fetched, FetchFault>>,
    in_flight: HashMap<Id, InFlight>,
    /// Texts that wait to be compiled; `None` for files that are read again.
    waiting: BTreeMap<String, Option<FetchedText>>,
    /// When they are compiled at the latest.
    gathered: Option<Instant>,
    /// Lists that are fetched although they are not due.
    forced: BTreeSet<String>,
    refreshes: Vec<Refresh>,
}

/// Runs the thread.
pub(super) fn work(
    recursive: Weak<Recursive>,
    hosts: ServerHosts,
    orders: mpsc::UnboundedReceiver<ListOrder>,
) {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(fault) => return error!("lists are not fetched: {}", reason(&fault)),
    };
    let fetcher = ListFetcher {
        recursive,
        hosts: Arc::new(hosts),
        tasks: JoinSet::new(),
        in_flight: HashMap::new(),
        waiting: BTreeMap::new(),
        gathered: None,
        forced: BTreeSet::new(),
        refreshes: Vec::new(),
    };
    runtime.block_on(fetcher.run(orders));
}

impl ListFetcher {
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<ListOrder>) {
        while let Some(recursive) = self.recursive.upgrade() {
            self.begin_due(&recursive.lists);
            if self.is_gathered() {
                self.put_into_force(&recursive);
            }
            let wait = self.until_next(&recursive.lists);
            drop(recursive);
            tokio::select! {
                order = orders.recv() => match order {
                    None | Some(ListOrder::Stop) => return,
                    Some(order) => self.obey(order),
                },
                Some(ended) = self.tasks.join_next_with_id() => self.ended(ended),
                () = sleep(wait) => {}
            }
        }
    }

    /// Begins fetches that are due, as many as may run.
    fn begin_due(&mut self, lists: &Lists) {
        for DueFetch { name, fetching, max_size, version } in lists.due(&self.forced) {
            let waiting: usize = self.waiting.values().flatten().map(|text| text.text.len()).sum();
            if self.tasks.len() >= MAX_FETCHES || waiting > MAX_WAITING_BYTES {
                return;
            }
            if self.is_busy(&name) {
                continue;
            }
            self.forced.remove(&name);
            lists.fetch_began(&name, &fetching);
            let (hosts, ca_file) = (Arc::clone(&self.hosts), fetching.ca_file.clone());
            let (url, timeout, own) = (fetching.url.clone(), fetching.timeout, version.clone());
            let task = self.tasks.spawn(async move {
                let (url, version, ca_file) = (&url, &own, ca_file.as_deref());
                let request = FetchRequest { url, version, max_size, timeout, ca_file };
                fetch(&request, &*hosts).await
            });
            self.in_flight.insert(task.id(), InFlight { name, fetching, version });
        }
    }

    /// Whether the list is fetched, or its text waits.
    fn is_busy(&self, name: &str) -> bool {
        self.waiting.contains_key(name) || self.in_flight.values().any(|flight| flight.name == name)
    }

    fn is_gathered(&self) -> bool {
        let is_over = self.gathered.is_some_and(|at| at <= Instant::now());
        !self.waiting.is_empty() && (self.tasks.is_empty() || is_over)
    }

    /// Returns the time until there is something to do that neither an order nor a fetch brings.
    fn until_next(&self, lists: &Lists) -> Duration {
        let gathered = self.gathered.map(|at| at.saturating_duration_since(Instant::now()));
        // While as many fetches run as may, the end of one is waited for.
        let is_full = self.tasks.len() >= MAX_FETCHES;
        let next = lists.next_fetch(|name| self.is_busy(name)).filter(|_| !is_full);
        // A second that has begun is not over.
        let due = next.map(|next| next.saturating_duration_since(unix_now()).max(Duration::from_secs(1)));
        gathered.into_iter().chain(due).min().unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP)
    }

    fn obey(&mut self, order: ListOrder) {
        let Some(recursive) = self.recursive.upgrade() else { return };
        match order {
            ListOrder::Stop => {}
            ListOrder::Look => {
                recursive.lists.remove_others();
                let names: BTreeSet<String> =
                    recursive.lists.sources().into_iter().map(|(name, _)| name).collect();
                let gone = self.refreshes.iter().flat_map(|refresh| &refresh.left);
                let gone: Vec<String> = gone.filter(|name| !names.contains(*name)).cloned().collect();
                let fault = || Err("the list is no longer configured".to_owned());
                gone.iter().for_each(|name| self.settle(name, &fault()));
            }
            ListOrder::Refresh(left, reply) => {
                for (name, source) in recursive.lists.sources() {
                    match source {
                        _ if !left.contains(&name) || self.is_busy(&name) => {}
                        ListSource::Url(_) => drop(self.forced.insert(name)),
                        ListSource::File(_) => self.wait(name, None),
                    }
                }
                let (done, reply) = (RefreshedLists::new(), Some(reply));
                self.refreshes.push(Refresh { left, done, reply });
                self.reply();
            }
        }
    }

    /// Takes a text, or a file, that is to be compiled.
    fn wait(&mut self, name: String, text: Option<FetchedText>) {
        self.waiting.insert(name, text);
        self.gathered.get_or_insert(Instant::now() + GATHER_TIME);
    }

    /// Handles the end of a fetch.
    fn ended(&mut self, ended: Result<(Id, Result<Fetched, FetchFault>), JoinError>) {
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(fault) => fault.id(),
        };
        let (Some(flight), Some(recursive)) = (self.in_flight.remove(&id), self.recursive.upgrade()) else {
            return;
        };
        let InFlight { name, fetching, version } = flight;
        // The panic hook has shown a panic, which would be a bug in nomen.
        match ended.map_or(Err(FetchFault::Setup("a bug in nomen".into())), |(_, result)| result) {
            Ok(Fetched::Document { text, validators }) => {
                self.wait(name, Some(FetchedText { text, validators, fetching }));
            }
            Ok(Fetched::NotModified) => {
                recursive.lists.fetch_confirmed(&name, &fetching, &version);
                self.settle(&name, &Ok(false));
            }
            Err(fault) => {
                recursive.lists.fetch_failed(&name, &fetching, &fault);
                self.settle(&name, &Err(fault.to_string()));
            }
        }
    }

    /// Compiles the texts that wait, and puts the rules into force.
    fn put_into_force(&mut self, recursive: &Recursive) {
        self.gathered = None;
        let texts = std::mem::take(&mut self.waiting);
        for (name, outcome) in recursive.take_lists(&texts) {
            self.settle(&name, &outcome);
        }
    }

    /// Notes the outcome of a list for those who ordered it.
    fn settle(&mut self, name: &str, outcome: &Result<bool, String>) {
        for refresh in &mut self.refreshes {
            if refresh.left.remove(name) {
                refresh.done.insert(name.to_owned(), outcome.clone());
            }
        }
        self.reply();
    }

    /// Replies to orders that are complete.
    fn reply(&mut self) {
        for refresh in self.refreshes.extract_if(.., |refresh| refresh.left.is_empty()) {
            // The client may have disconnected.
            refresh.reply.map(|reply| reply.send(refresh.done));
        }
    }
}

impl Recursive {
    /// Fetches or reads lists now: the one of this name, or all. Returns the names and where to expect the
    /// outcomes; `None` if there is no list of this name.
    pub fn refresh_lists(&self, name: Option<&str>) -> Option<oneshot::Receiver<RefreshedLists>> {
        let names = self.lists.sources().into_iter().map(|(name, _)| name);
        let names: BTreeSet<String> = names.filter(|own| name.is_none_or(|name| name == own)).collect();
        if name.is_some() && names.is_empty() {
            return None;
        }
        let (reply, outcome) = oneshot::channel();
        self.order_lists(ListOrder::Refresh(names, reply));
        Some(outcome)
    }

    /// Sends a message to the thread of lists. A message that it does not take is dropped.
    pub(super) fn order_lists(&self, order: ListOrder) {
        if let Some((orders, _)) = &*lock(&self.list_thread) {
            // The thread may have stopped.
            let _ = orders.send(order);
        }
    }

    /// Compiles new texts of lists, puts the rules into force, and stores the texts. Returns the outcomes.
    fn take_lists(&self, texts: &BTreeMap<String, Option<FetchedText>>) -> RefreshedLists {
        let _changing = self.lists.change();
        let outcomes = self.lists.take(texts);
        self.put_rules(self.lists.in_force());
        self.policy_zones.look_again();
        self.lists.store_texts(texts);
        outcomes
    }
}
