//! Groups of clients: which sources of rules count for each at a time, by schedules and pauses.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use policy::{GroupFacts, SourceId, SourceMask};
use query_path::{GroupLimit, GroupLimits, GroupRule};
use rate_limits::{RateLimit, RateTable};
use recursion::{ClientGroup, ClientGroups, GroupCounts, OtherClients, PartitionsConfig};
use resolver::Partition;
use tracing::error;

use super::lists::RulesConfig;
use config::neighbours::{MacAddress, neighbours};
use config::policy_groups::{DEFAULT_GROUP, GroupConfig, GroupsConfig, RuleSelection};
use config::resolver::ScheduledPartitions;
use telemetry::repeated::log_repeated;
use threads::sync::lock;
use wording::reason;

/// What counts for each group, in the order of the configuration, then for clients in none. Empty: all
/// sources for all clients.
pub(super) type Selected = Vec<SourceMask>;

/// The addresses of the hosts whose MAC addresses groups name.
pub(super) type MacAddresses = BTreeMap<MacAddress, BTreeSet<IpAddr>>;

/// Time between two looks at the table of neighbours, if groups name MAC addresses.
const NEIGHBOUR_INTERVAL: Duration = Duration::from_secs(2);

/// Returns the addresses that the hosts of groups have now; those from before if the table of neighbours
/// cannot be read.
pub(super) fn addresses(config: &GroupsConfig, before: &MacAddresses) -> MacAddresses {
    let named: BTreeSet<MacAddress> = config.groups.iter().flat_map(|group| &group.macs).copied().collect();
    if named.is_empty() {
        return MacAddresses::new();
    }
    match neighbours() {
        Ok(table) => of_table(&named, table),
        Err(fault) => {
            let about = ("neighbours", "");
            log_repeated!(warn, WARN, about, "the table of neighbours cannot be read: {}", reason(&fault));
            before.clone()
        }
    }
}

fn of_table(named: &BTreeSet<MacAddress>, table: Vec<(MacAddress, IpAddr)>) -> MacAddresses {
    let mut found = MacAddresses::new();
    for (mac, address) in table.into_iter().filter(|(mac, _)| named.contains(mac)) {
        found.entry(mac).or_default().insert(address);
    }
    found
}

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

/// Returns the rule of a group with the addresses that its hosts have now.
fn with_hosts(rule: &GroupRule, addresses: &MacAddresses) -> GroupRule {
    let mut rule = rule.clone();
    rule.add_hosts(|mac| addresses.get(&MacAddress(mac)).into_iter().flatten());
    rule
}

/// Returns the groups as they come into force.
pub(super) fn compiled(
    config: &GroupsConfig,
    selected: &Selected,
    addresses: &MacAddresses,
    figures: &GroupFigures,
) -> Option<ClientGroups> {
    let (others, sources) = selected.split_last()?;
    let group = |(group, sources): (&GroupConfig, &SourceMask)| {
        let rule = with_hosts(&group.rule, addresses);
        let facts = GroupFacts { name: group.name.clone(), tags: group.tags.clone() };
        ClientGroup { facts, rule, sources: *sources, counts: figures.of(&group.name).rules }
    };
    let groups: Vec<ClientGroup> = config.groups.iter().zip(sources).map(group).collect();
    let counts = figures.of(DEFAULT_GROUP).rules;
    let others = OtherClients { name: DEFAULT_GROUP.to_owned(), sources: *others, counts };
    // The check of the configuration has counted them.
    let groups = ClientGroups::new(&groups, &others, &config.trusted);
    groups.inspect_err(|fault| error!("groups are not in force: {fault}")).ok()
}

/// Returns which clients are in which partition at a moment: `usual` are the groups while no schedule is in
/// force, without the addresses of hosts.
pub(super) fn partitions(
    config: &GroupsConfig,
    usual: &PartitionsConfig,
    scheduled: &ScheduledPartitions,
    addresses: &MacAddresses,
    at: Timestamp,
) -> PartitionsConfig {
    let now = |group: &str, usual: Partition| {
        let name = config.schedule(group, at).and_then(|schedule| schedule.name.as_ref());
        name.and_then(|name| scheduled.get(name)).copied().unwrap_or(usual)
    };
    let mut present = usual.clone();
    present.others = now(DEFAULT_GROUP, usual.others);
    for (own, group) in present.groups.iter_mut().zip(&config.groups) {
        own.partition = now(&group.name, own.partition);
        own.rule = with_hosts(&group.rule, addresses);
    }
    present
}

/// The counters of a group.
#[derive(Clone, Default)]
pub struct GroupFigure {
    /// Queries that rules decided.
    pub rules: Arc<GroupCounts>,
    /// Queries over the limit.
    pub over_limit: Arc<AtomicU64>,
}

/// The counters of groups, by the name of the group. They outlive reloads.
#[derive(Default)]
pub(super) struct GroupFigures(Mutex<BTreeMap<String, GroupFigure>>);

impl GroupFigures {
    /// Returns the counters of a group.
    fn of(&self, group: &str) -> GroupFigure {
        lock(&self.0).entry(group.to_owned()).or_default().clone()
    }

    /// Returns the name and the counters of each group since the start.
    pub(super) fn all(&self) -> Vec<(String, GroupFigure)> {
        lock(&self.0).iter().map(|(group, figure)| (group.clone(), figure.clone())).collect()
    }
}

/// Bytes of the counters of clients: 131,072 counters. If more clients query at once, counters are shared,
/// and limits become stricter.
const LIMIT_TABLE_BYTES: usize = 1 << 20;

/// How long the queries may take that come at once after a pause, at the rate of the limit.
const LIMIT_BURST: Duration = Duration::from_secs(2);

/// Returns the counters of clients, empty.
///
/// # Errors
/// The system returned no random numbers.
pub(super) fn limit_table() -> Result<Arc<RateTable>, getrandom::Error> {
    let mut keys = [0; 32];
    getrandom::fill(&mut keys)?;
    let key = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| keys[8 * at + byte]));
    Ok(Arc::new(RateTable::new(LIMIT_TABLE_BYTES, std::array::from_fn(key), Instant::now())))
}

/// Whether any clients have a limit.
pub(super) fn has_limits(config: &GroupsConfig) -> bool {
    config.queries.is_some() || config.groups.iter().any(|group| group.queries.is_some())
}

/// Returns the limits on the queries of groups as they come into force.
pub(super) fn limits(
    config: &GroupsConfig,
    addresses: &MacAddresses,
    figures: &GroupFigures,
    table: &Arc<RateTable>,
) -> Option<GroupLimits> {
    let limit = |group: &str, queries: Option<u32>| {
        let limit = RateLimit::of_addresses(queries?, LIMIT_BURST);
        Some(GroupLimit { limit, refused: figures.of(group).over_limit })
    };
    let group = |group: &GroupConfig| {
        let rule = with_hosts(&group.rule, addresses);
        (rule, limit(&group.name, group.queries))
    };
    let groups: Vec<_> = config.groups.iter().map(group).collect();
    // The check of the configuration has counted them.
    let limits = GroupLimits::new(&groups, limit(DEFAULT_GROUP, config.queries), &config.trusted, table);
    limits.inspect_err(|fault| error!("limits of groups are not in force: {fault}")).ok()
}

/// Returns the time until what counts for a client may change: the next minute if there are schedules,
/// the end of a pause, or the next look at the table of neighbours.
pub(super) fn until_change(config: &GroupsConfig, pauses: &Pauses, at: Timestamp) -> Option<Duration> {
    let has_hosts = config.groups.iter().any(|group| !group.macs.is_empty());
    let look = has_hosts.then_some(NEIGHBOUR_INTERVAL);
    let minute = (!config.schedules.is_empty())
        .then(|| Duration::from_secs(60 - at.as_second().rem_euclid(60) as u64));
    let pause = pauses.next_end(at).map(|end| Duration::try_from(end.duration_since(at)).unwrap_or_default());
    minute.into_iter().chain(pause).chain(look).min()
}

#[cfg(test)]
mod tests {
    use config::lists::ListsConfig;
    use config::{AcceptedConfig, interfaces::Interfaces, read_text};
    use recursion::PartitionedGroup;
    use wire::Prefix;

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
        let schedule = "[[policy.schedule]]\ngroup = \"children\"\nstart = \"08:00\"\nend = \"09:00\"\n";
        let with_schedule = rules(&format!("{schedule}{CHILDREN}"));
        assert_eq!(until_change(&GroupsConfig::default(), &pauses, now), None);
        assert_eq!(until_change(&with_schedule.groups, &pauses, now), Some(Duration::from_secs(15)));
        pauses.set("children", Some(at("2026-11-26T12:00:50Z")));
        assert_eq!(until_change(&with_schedule.groups, &pauses, now), Some(Duration::from_secs(5)));
        assert_eq!(until_change(&GroupsConfig::default(), &pauses, at("2026-11-26T12:00:50Z")), None);
        let with_host = rules(&CHILDREN.replace("192.0.2.0/24", "mac:00:11:22:33:44:55"));
        let hour = at("2026-11-26T13:00:00Z");
        assert_eq!(until_change(&with_host.groups, &pauses, hour), Some(NEIGHBOUR_INTERVAL));
    }

    #[test]
    fn a_schedule_and_the_table_of_neighbours_change_partitions() {
        let children = "[[policy.group]]\nname = \"children\"\nfrom = [\"mac:00:11:22:33:44:55\"]\n";
        let config = rules(&format!(
            "{children}[[policy.schedule]]\nname = \"evening\"\ngroup = \"children\"\nstart = \"20:00\"\n\
             end = \"21:00\"\ntime-zone = \"UTC\"\n"
        ));
        let [day, evening, others] = [1, 2, 3].map(Partition::numbered);
        let group = PartitionedGroup {
            name: "children".into(),
            rule: config.groups.groups[0].rule.clone(),
            partition: day,
        };
        let usual = PartitionsConfig { groups: vec![group], others, trusted: Vec::new() };
        let scheduled = ScheduledPartitions::from([("evening".to_owned(), evening)]);
        let address = IpAddr::from([192, 0, 2, 7]);
        let mac = MacAddress([0, 0x11, 0x22, 0x33, 0x44, 0x55]);
        let found = MacAddresses::from([(mac, BTreeSet::from([address]))]);
        let (none, at) = (MacAddresses::new(), |time, found| {
            partitions(&config.groups, &usual, &scheduled, found, at(time))
        });
        let by_day = at("2026-11-26T19:59:59Z", &none);
        assert_eq!(by_day, usual);
        let by_night = at("2026-11-26T20:00:00Z", &found);
        assert_eq!((by_night.groups[0].partition, by_night.others), (evening, others));
        assert_eq!(by_night.groups[0].rule.parts[0].clients.from, [Prefix::single(address)]);
    }

    #[test]
    fn hosts_have_the_addresses_of_the_table_of_neighbours() {
        let config = rules(&CHILDREN.replace("192.0.2.0/24", "mac:00:11:22:33:44:55"));
        let mac = MacAddress([0, 0x11, 0x22, 0x33, 0x44, 0x55]);
        let addresses =
            ["198.51.100.7", "2001:db8::7"].map(|text| text.parse::<IpAddr>().expect("an address"));
        let other = (MacAddress([9; 6]), IpAddr::from([198, 51, 100, 8]));
        let table = vec![(mac, addresses[0]), other, (mac, addresses[1])];
        let found = of_table(&BTreeSet::from([mac]), table);
        assert_eq!(found, MacAddresses::from([(mac, BTreeSet::from(addresses))]));
        let selected = selected(&config, &Pauses::default(), at("2026-11-26T12:00:00Z"));
        let in_group = |found: &MacAddresses, peer: IpAddr| {
            let groups =
                compiled(&config.groups, &selected, found, &GroupFigures::default()).expect("groups");
            let client = transport::Client {
                peer: (peer, 53).into(),
                local: ([127, 0, 0, 1], 53).into(),
                transport: transport::Transport::Udp,
            };
            groups.of(query_path::GroupClient::by_address(&client)).facts.is_some()
        };
        assert!(addresses.iter().all(|address| in_group(&found, *address)));
        assert!(!in_group(&found, other.1) && !in_group(&MacAddresses::new(), addresses[0]));
    }
}
