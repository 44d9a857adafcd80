//! Lists with a URL: which are due, what is known of their fetches, and the rules in what was fetched. The
//! last good version is on disk, where a start finds it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use fetch::{DocumentFault, FetchFault, StoredDocument, Validators, checksum};
use policy::{RuleBuilder, SourceId};
use tracing::{debug, error, info, warn};
use transport::unix_now;
use wire::UnixTime;

use super::list_fetches::ListFetches;
use super::lists::{InForce, ListStatus, Lists, add, is_read_alike, keep};
use config::lists::{ListConfig, ListFetching, ListSource};
use threads::sync::lock;
use wording::reason;

/// A text that was fetched.
pub(super) struct FetchedText {
    pub(super) text: Vec<u8>,
    pub(super) validators: Validators,
    /// What it was fetched for.
    pub(super) fetching: ListFetching,
}

/// A fetch that is due.
pub(super) struct DueFetch {
    pub(super) name: String,
    pub(super) fetching: ListFetching,
    pub(super) max_size: usize,
    /// The version in force.
    pub(super) version: Validators,
}

impl Lists {
    /// Returns the stored version of a list.
    pub(super) fn stored(
        &self,
        list: &ListConfig,
        fetching: &ListFetching,
    ) -> Result<Option<StoredDocument>, DocumentFault> {
        let Some(store) = &self.store else { return Ok(None) };
        store.read(&list.name, &fetching.url, list.max_size)
    }

    /// Adds the rules of a list with a URL to `builder`: those in `text`; without one those of `kept`, the
    /// version in force, or else those of the stored version.
    pub(super) fn read_fetched(
        &self,
        builder: &mut RuleBuilder,
        source: SourceId,
        (list, fetching): (&ListConfig, &ListFetching),
        kept: Option<InForce<'_>>,
        text: Option<&FetchedText>,
    ) -> ListStatus {
        let now = unix_now();
        let before =
            kept.map(|(old, ..)| &old.status).filter(|old| old.config.source.is_same_text(&list.source));
        let fetches = before.and_then(|old| old.fetches.clone());
        let is_kept = kept.is_some_and(|(old, ..)| is_read_alike(&old.status.config, list));
        let Some(FetchedText { text, validators, .. }) =
            text.filter(|text| text.fetching.url == fetching.url)
        else {
            if is_kept && fetches.is_some() {
                let fault = before.and_then(|old| old.fault.clone());
                return ListStatus { fault, fetches, ..keep(builder, source, list, kept, None) };
            }
            return self.read_stored(builder, source, (list, fetching), kept, fetches);
        };
        let mut fetches = fetches.unwrap_or_else(|| ListFetches::due_at_once(now));
        match add(builder, source, list, text) {
            Ok(report) => {
                info!(list = list.name, rules = report.rules, "the list is fetched");
                fetches.updated(validators.clone(), now, fetching.refresh, random());
                let (report, read, fetches) = (Some(report), Some(now), Some(fetches));
                let sum = Some(checksum(text));
                ListStatus { config: list.clone(), report, read, fault: None, fetches, sum }
            }
            Err(fault) => {
                fetches.refused(now, fetching.refresh);
                let status = keep(builder, source, list, kept, Some(fault));
                ListStatus { fetches: Some(fetches), ..status }
            }
        }
    }

    /// Adds the rules of the stored version of a list to `builder`, or else those of `kept`.
    fn read_stored(
        &self,
        builder: &mut RuleBuilder,
        source: SourceId,
        (list, fetching): (&ListConfig, &ListFetching),
        kept: Option<InForce<'_>>,
        before: Option<ListFetches>,
    ) -> ListStatus {
        let counts = before.map(|before| before.counts).unwrap_or_default();
        let fault = match self.stored(list, fetching) {
            Ok(None) => None,
            Ok(Some(StoredDocument { validators, confirmed, text })) => {
                match add(builder, source, list, &text) {
                    Ok(report) => {
                        let confirmed = UnixTime::from(confirmed);
                        let stored = ListFetches::stored(validators, confirmed, fetching.refresh, random());
                        let (report, read) = (Some(report), Some(unix_now()));
                        let (fetches, sum) = (Some(stored.counted_since(counts)), Some(checksum(&text)));
                        return ListStatus { config: list.clone(), report, read, fault: None, fetches, sum };
                    }
                    Err(fault) => Some(fault),
                }
            }
            Err(fault) => Some(fault.to_string()),
        };
        if let (Some(fault), Some(store)) = (fault, &self.store) {
            let path = store.path(&list.name, &fetching.url);
            error!(
                list = list.name,
                "the stored version of the list is not used: {}: {fault}",
                path.display()
            );
        }
        if kept.is_none_or(|(old, ..)| old.status.report.is_none()) {
            info!(list = list.name, "the list has no rules until it is fetched: {}", fetching.url);
        }
        let fetches = Some(ListFetches::due_at_once(unix_now()).counted_since(counts));
        ListStatus { fetches, ..keep(builder, source, list, kept, None) }
    }

    /// Returns the fetches that are due, and those of lists with these names.
    pub(super) fn due(&self, forced: &BTreeSet<String>) -> Vec<DueFetch> {
        let now = unix_now();
        let due = |status: &ListStatus| {
            let (fetching, fetches) = (status.config.source.fetching()?, status.fetches.as_ref()?);
            let is_due = forced.contains(&status.config.name) || fetches.is_due(now, fetching.refresh);
            is_due.then(|| DueFetch {
                name: status.config.name.clone(),
                fetching: fetching.clone(),
                max_size: status.config.max_size,
                version: fetches.version.clone(),
            })
        };
        lock(&self.loaded).lists.iter().filter_map(|list| due(&list.status)).collect()
    }

    /// Returns when the next fetch is due, of lists that are not in `except`.
    pub(super) fn next_fetch(&self, except: impl Fn(&str) -> bool) -> Option<UnixTime> {
        let loaded = lock(&self.loaded);
        let others =
            loaded.lists.iter().map(|list| &list.status).filter(|status| !except(&status.config.name));
        others.filter_map(|status| Some(status.fetches.as_ref()?.next)).min()
    }

    /// Changes what is known of the fetches of a list, if it still has this URL.
    fn change_fetches(
        &self,
        name: &str,
        fetching: &ListFetching,
        change: impl FnOnce(&mut ListFetches, &mut Option<String>),
    ) {
        let _changing = self.change();
        let mut loaded = lock(&self.loaded);
        let mut all = loaded.lists.iter_mut().map(|list| &mut list.status);
        let is_of = |source: &ListSource| source.fetching().is_some_and(|other| other.url == fetching.url);
        let status = all.find(|status| status.config.name == name && is_of(&status.config.source));
        if let Some(ListStatus { fetches: Some(fetches), fault, .. }) = status {
            change(fetches, fault);
        }
    }

    /// Notes that a fetch begins.
    pub(super) fn fetch_began(&self, name: &str, fetching: &ListFetching) {
        self.change_fetches(name, fetching, |fetches, _| fetches.began(unix_now()));
    }

    /// Notes that the server has confirmed `version`.
    pub(super) fn fetch_confirmed(&self, name: &str, fetching: &ListFetching, version: &Validators) {
        let now = unix_now();
        let mut is_in_force = false;
        self.change_fetches(name, fetching, |fetches, fault| {
            // After a change of `format`, another version may be in force, or none.
            is_in_force = fetches.version == *version;
            if is_in_force {
                fetches.unchanged(now, fetching.refresh, random());
                *fault = None;
            }
        });
        debug!(list = name, "the list is confirmed");
        if let Some(store) = self.store.as_ref().filter(|_| is_in_force)
            && let Err(fault) = store.confirm(name, &fetching.url, SystemTime::from(now))
        {
            warn!(list = name, "the stored version of the list keeps its old time: {}", reason(&fault));
        }
    }

    /// Notes that a fetch has failed.
    pub(super) fn fetch_failed(&self, name: &str, fetching: &ListFetching, fault: &FetchFault) {
        let url = &fetching.url;
        error!(list = name, "the list cannot be fetched: {url}: {fault}");
        self.change_fetches(name, fetching, |fetches, shown| {
            fetches.failed(unix_now(), fetching.refresh);
            *shown = Some(fault.to_string());
        });
    }

    /// Stores the texts that are now in force.
    pub(super) fn store_texts(&self, texts: &BTreeMap<String, Option<FetchedText>>) {
        let Some(store) = &self.store else { return };
        let faults: BTreeMap<String, bool> = lock(&self.loaded)
            .lists
            .iter()
            .map(|list| (list.status.config.name.clone(), list.status.fault.is_some()))
            .collect();
        for (name, text) in texts {
            let Some(FetchedText { text, validators, fetching }) = text else { continue };
            if faults.get(name) == Some(&false)
                && let Err(fault) = store.write(name, &fetching.url, validators, text)
            {
                let url = &fetching.url;
                error!(
                    list = name,
                    "the list is in force, but not stored on disk: {url}: {}",
                    reason(&fault)
                );
            }
        }
    }

    /// Removes the stored versions of lists that are no longer configured.
    pub(super) fn remove_others(&self) {
        let Some(store) = &self.store else { return };
        let of = |status: &ListStatus| {
            Some(store.path(&status.config.name, &status.config.source.fetching()?.url))
        };
        let paths = lock(&self.loaded).lists.iter().filter_map(|list| of(&list.status)).collect();
        match store.retain(&paths) {
            Ok(removed) => removed.iter().for_each(|path| info!("removed the list {}", path.display())),
            Err(fault) => warn!("stored versions of other lists are not removed: {}", reason(&fault)),
        }
    }
}

/// Returns a random number, or 0 if the system has none.
pub(super) fn random() -> u32 {
    getrandom::u32().unwrap_or_default()
}
