//! Groups of clients: which sources of rules count for each at a time, by schedules and pauses.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use jiff::Timestamp;
use policy::{GroupFacts, SourceId, SourceMask};
use recursion::{ClientGroup, ClientGroups};
use tracing::error;

use super::lists::RulesConfig;
use config::policy_groups::{DEFAULT_GROUP, GroupsConfig, RuleSelection};
use threads::sync::lock;

/// What counts for each group, in the order of the configuration, then for clients in none. Empty: all
/// sources for all clients.
pub(super) type Selected = Vec<SourceMask>;

/// Groups for which no rules count until a time.
#[derive(Default)]
pub(super) struct Pauses(Mutex<HashMap<String, Timestamp>>);

impl Pauses {
    /// Suspends the rules for a group until a time; `None` ends a pause.
    pub(super) fn set(&self, group: &str, until: Option<Timestamp>) {
        let mut pauses = lock(&self.0);
        match until {
            Some(until) => pauses.insert(group.to_owned(), until),
            None => pauses.remove(group),
        };
    }

    /// Returns the end of a group's pause, if it has one at this moment.
    pub(super) fn of(&self, group: &str, at: Timestamp) -> Option<Timestamp> {
        lock(&self.0).get(group).copied().filter(|until| *until > at)
    }

    /// Returns the next end of a pause.
    fn next_end(&self, at: Timestamp) -> Option<Timestamp> {
        let mut pauses = lock(&self.0);
        pauses.retain(|_, until| *until > at);
        pauses.values().min().copied()
    }
}

/// Returns what counts for each group at a moment.
pub(super) fn selected(config: &RulesConfig, pauses: &Pauses, at: Timestamp) -> Selected {
    let groups = &config.groups;
    let of = |name: &str, usual: &RuleSelection| match pauses.of(name, at) {
        Some(_) => SourceMask::default(),
        None => sources(config, groups.selection(name, usual, at)),
    };
    let others = of(DEFAULT_GROUP, &groups.others);
    let usual = RuleSelection { safe_search: groups.safe_search(), ..RuleSelection::default() };
    if groups.groups.is_empty() && others == sources(config, &usual) {
        return Vec::new();
    }
    groups.groups.iter().map(|group| of(&group.name, &group.selection)).chain([others]).collect()
}

/// Returns the sources of a selection. They are numbered as they are compiled: policy zones, safe search if
/// any clients have it, lists.
fn sources(config: &RulesConfig, selection: &RuleSelection) -> SourceMask {
    let mut numbers = (0..=u8::MAX).map(SourceId);
    let mut selected = SourceMask::default();
    let mut take = |source: Option<SourceId>, counts: bool| {
        if let Some(source) = source.filter(|_| counts) {
            selected = selected.with(source);
        }
    };
    for zone in &config.zones.zones {
        take(numbers.next(), selection.zones.as_ref().is_none_or(|zones| zones.contains(&zone.name)));
    }
    if config.groups.safe_search() {
        take(numbers.next(), selection.safe_search);
    }
    for list in &config.lists.lists {
        take(numbers.next(), selection.lists.as_ref().is_none_or(|lists| lists.contains(&list.name)));
    }
    selected
}

/// Returns the groups as they come into force.
pub(super) fn compiled(config: &GroupsConfig, selected: &Selected) -> Option<ClientGroups> {
    let (others, sources) = selected.split_last()?;
    let group = |(group, sources): (&config::policy_groups::GroupConfig, &SourceMask)| ClientGroup {
        facts: GroupFacts { name: group.name.clone(), tags: group.tags.clone() },
        clients: group.clients.clone(),
        keys: Vec::new(),
        sources: *sources,
    };
    let groups: Vec<ClientGroup> = config.groups.iter().zip(sources).map(group).collect();
    // The check of the configuration has counted them.
    let groups = ClientGroups::new(&groups, *others);
    groups.inspect_err(|fault| error!("groups are not in force: {fault}")).ok()
}

/// Returns the time until what counts for a group may change: the next minute if there are schedules, or the
/// end of a pause.
pub(super) fn until_change(has_schedules: bool, pauses: &Pauses, at: Timestamp) -> Option<Duration> {
    let minute = has_schedules.then(|| Duration::from_secs(60 - at.as_second().rem_euclid(60) as u64));
    let pause = pauses.next_end(at).map(|end| Duration::try_from(end.duration_since(at)).unwrap_or_default());
    minute.into_iter().chain(pause).min()
}

#[cfg(test)]
mod tests {
    use config::lists::ListsConfig;
    use config::{AcceptedConfig, interfaces::Interfaces, read_text};

    use super::*;

    fn rules(text: &str) -> RulesConfig {
        let lists = "[[policy.list]]\nname = \"ads\"\nfile = \"f\"\n[[policy.list]]\nname = \"adult\"\nfile = \"f\"\n";
        let text = format!("[resolver]\n{lists}{text}");
        let AcceptedConfig { config, .. } =
            read_text("t.toml", text, std::path::Path::new("/")).unwrap_or_else(|fault| panic!("{fault}"));
        let settings = config.settings;
        let lists: ListsConfig = settings.lists();
        let groups = settings.policy_groups(&Interfaces::default());
        RulesConfig { zones: settings.policy_zones(), lists, groups }
    }

    fn mask(numbers: &[u8]) -> SourceMask {
        numbers.iter().fold(SourceMask::default(), |mask, number| mask.with(SourceId(*number)))
    }

    const CHILDREN: &str = "[[policy.group]]\nname = \"children\"\nfrom = [\"192.0.2.0/24\"]\nsafe-search = true\n\
        [policy]\nlists = [\"ads\"]\n";

    fn at(time: &str) -> Timestamp {
        time.parse().expect("a time")
    }

    #[test]
    fn without_groups_all_sources_count_for_all() {
        let (pauses, now) = (Pauses::default(), at("2026-11-26T12:00:00Z"));
        assert_eq!(selected(&rules(""), &pauses, now), []);
        assert_eq!(selected(&rules("[policy]\nsafe-search = true\n"), &pauses, now), []);
        assert_eq!(selected(&rules("[policy]\nlists = []\n"), &pauses, now), [mask(&[])]);
        pauses.set(DEFAULT_GROUP, Some(at("2026-11-26T12:10:00Z")));
        assert_eq!(selected(&rules(""), &pauses, now), [mask(&[])]);
        assert_eq!(selected(&rules(""), &pauses, at("2026-11-26T12:10:00Z")), []);
    }

    #[test]
    fn sources_are_numbered_as_they_are_compiled() {
        let (pauses, now) = (Pauses::default(), at("2026-11-26T12:00:00Z"));
        // Safe search, then the lists.
        assert_eq!(selected(&rules(CHILDREN), &pauses, now), [mask(&[0, 1, 2]), mask(&[1])]);
        pauses.set("children", Some(at("2026-11-26T12:10:00Z")));
        assert_eq!(selected(&rules(CHILDREN), &pauses, now), [mask(&[]), mask(&[1])]);
        pauses.set("children", None);
        assert_eq!(selected(&rules(CHILDREN), &pauses, now), [mask(&[0, 1, 2]), mask(&[1])]);
    }

    #[test]
    fn the_next_change_is_a_minute_or_the_end_of_a_pause() {
        let (pauses, now) = (Pauses::default(), at("2026-11-26T12:00:45Z"));
        assert_eq!(until_change(false, &pauses, now), None);
        assert_eq!(until_change(true, &pauses, now), Some(Duration::from_secs(15)));
        pauses.set("children", Some(at("2026-11-26T12:00:50Z")));
        assert_eq!(until_change(true, &pauses, now), Some(Duration::from_secs(5)));
        assert_eq!(until_change(false, &pauses, at("2026-11-26T12:00:50Z")), None);
    }
}
