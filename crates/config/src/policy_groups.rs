//! `[[policy.group]]` and `[[policy.schedule]]`: which response policy zones and lists count for which
//! clients, and when. Reads no clock.

use std::collections::{HashMap, HashSet};

use query_path::access::LocalAddress;
use query_path::{ClientId, GroupPart, GroupRule};
use toml::Spanned;
use toml::de::DeValue;
use transport::Transport;
use wire::{LowerNameBuf, NameBuf, Prefix};

use super::addresses::OnAddress;
use super::interfaces::Interfaces;
use super::neighbours::MacAddress;
use super::report::{ConfigPlace, Diagnostic};
use super::resolver::access::{Clients, rule};
use super::resolver::networks::NetworkOr;
use super::resolver::{NamedGroups, NamedSchedule};
use super::table::keys;
use super::table::read::{At, Reader};
use super::table::value::{Int, Value, Word, quote};
use super::views::read_key;

keys! {
    /// What counts for clients in no group.
    pub struct SelectionKeys {
        /// Lists that count for clients in no group; `[]` is none. Unset: all.
        live "lists" lists: Option<Vec<At<ListName>>> = None, example ["ads"];
        /// Response policy zones that count for clients in no group; `[]` is none. Unset: all.
        live "zones" zones: Option<Vec<At<PolicyZoneName>>> = None, example ["rpz.example.com"];
        /// Whether search engines leave adult content out for clients in no group: their names are aliases of
        /// the names at which they do so.
        live "safe-search" safe_search: bool = false, example true;
        /// Queries per second of each client in no group, by its address and over all transports. After a
        /// pause, those of two seconds may come at once. A query beyond the limit gets no reply over UDP, and
        /// REFUSED over the other transports. Unset: no limit.
        live "queries-per-second" queries: Option<QueryRate> = None, example 100;
        /// Networks of forwarders that are trusted to say in an EDNS option for which client they ask: its
        /// MAC address, its identifier or its tag, which `from` of a group may name. In other queries these
        /// options have no effect. Unset: none.
        live "client-ids-from" ids_from: Option<Vec<At<Prefix>>> = None, example ["192.168.1.1"];
    }
}

keys! {
    /// A group of clients for which other lists and response policy zones count, and which rules for
    /// sending queries to other servers may name. A client is in the first group that it matches.
    /// [GROUPS.md](GROUPS.md) explains it.
    pub struct PolicyGroup in "[[policy.group]]" {
        /// Name of the group, in commands.
        live "name" name: String, example "children";
        /// Networks that the client is in, and words as in `[[resolver.access]]`; "mac:ADDRESS", such as
        /// `mac:00:11:22:33:44:55`: the host with this MAC address on an attached link; "key:NAME": clients
        /// whose queries this TSIG key signs. In queries of the forwarders in `client-ids-from` of
        /// `[policy]`, options count as well: the MAC address (EDNS option 65001 or 65073);
        /// "client-id:NAME", the identifier of a client (65074 or 65073); "edns-tag:NUMBER", its tag (16).
        /// "client-id:NAME" also has the clients that write this identifier, in any letter case, where
        /// `client-ids` of `[server]` says.
        /// With `on:ADDRESS` or `on:ADDRESS@PORT`, such as `any on:192.0.2.53`, a member has the queries sent
        /// to this address of the server alone.
        live "from" from: Vec<At<GroupMember>>, example ["192.0.2.64/26", "any on:192.0.2.53"];
        /// Network interfaces whose addresses received the query. Unset: any.
        live "interface" interface: Option<Vec<At<String>>> = None, example ["eth1"];
        /// Transports of the query. Unset: any.
        live "proto" proto: Option<Vec<At<Transport>>> = None, example ["tcp"];
        /// Tags of the group, for rules of lists with `$ctag`. Its name is one for `$client`.
        live "tags" tags: Vec<At<String>> = Vec::new(), example ["user_child"];
        /// Lists that count for the group; `[]` is none. Unset: all.
        live "lists" lists: Option<Vec<At<ListName>>> = None, example ["ads"];
        /// Response policy zones that count for the group; `[]` is none. Unset: all.
        live "zones" zones: Option<Vec<At<PolicyZoneName>>> = None, example ["rpz.example.com"];
        /// Whether search engines leave adult content out for the group.
        live "safe-search" safe_search: bool = false, example true;
        /// Queries per second of each client of the group, as in `[policy]`. Unset: no limit.
        live "queries-per-second" queries: Option<QueryRate> = None, example 20;
    }
}

keys! {
    /// A time at which other lists and response policy zones count for a group. Of several schedules of a
    /// group, the first in whose time it is counts.
    pub struct PolicySchedule in "[[policy.schedule]]" {
        /// Name of the schedule, for `schedules` of `[[resolver.forward]]` and `[[resolver.stub]]`.
        live "name" name: Option<String> = None, example "evening";
        /// The group; "default" is that of clients in no group.
        live "group" group: String, example "children";
        /// Days of the week on which the time begins.
        live "days" days: Vec<At<Weekday>> = Weekday::all(), example ["mon", "fri"];
        /// When it begins.
        live "start" start: TimeOfDay, example "20:30";
        /// When it ends: on the next day, unless it is later than `start`.
        live "end" end: TimeOfDay, example "07:00";
        /// The time zone of both. Unset: that of the machine.
        live "time-zone" time_zone: Option<ZoneOfTime> = None, example "Europe/Berlin";
        /// Lists that count for the group at this time; `[]` is none. Unset: all.
        live "lists" lists: Option<Vec<At<ListName>>> = None, example ["ads"];
        /// Response policy zones that count for the group at this time; `[]` is none. Unset: all.
        live "zones" zones: Option<Vec<At<PolicyZoneName>>> = None, example ["rpz.example.com"];
        /// Whether search engines leave adult content out for the group at this time.
        live "safe-search" safe_search: bool = false, example true;
    }
}

/// The largest rate is more than one client sends.
type QueryRate = Int<u32, 1, 1_000_000>;

/// A member of `from`: clients, and the address of this server that their queries are sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMember {
    /// The clients.
    clients: GroupFrom,
    /// The address that received the query; `None` for any.
    on: Option<OnAddress>,
}

impl Value for GroupMember {
    fn kind() -> String {
        format!("{}, with `on:ADDRESS` if needed", GroupFrom::kind())
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        let Some((text, on)) = node.get_ref().as_str().and_then(split_on) else {
            return GroupFrom::read(node, reader).map(|clients| GroupMember { clients, on: None });
        };
        let parse = |_: &str| on.parse::<OnAddress>().map_err(|fault| fault.to_string());
        let on = reader.text(node, "an address of this server", parse);
        if text.is_empty() {
            reader.bad_value(node, "it names no client; write `any on:ADDRESS` for all clients");
            return None;
        }
        let clients = Spanned::new(node.span(), DeValue::String(text.into()));
        let clients = GroupFrom::read(&clients, reader)?;
        Some(GroupMember { clients, on: Some(on?) })
    }
    fn render(&self) -> Option<String> {
        let clients = self.clients.render()?;
        let Some(on) = self.on else { return Some(clients) };
        Some(quote(&format!("{} {}{on}", clients.trim_matches('"'), OnAddress::PREFIX)))
    }
}

/// Splits off a condition `on:ADDRESS` at the start or the end of a member.
fn split_on(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    if let Some(on) = first.strip_prefix(OnAddress::PREFIX) {
        return Some((rest.trim(), on));
    }
    let (rest, last) = text.rsplit_once(char::is_whitespace)?;
    Some((rest.trim(), last.strip_prefix(OnAddress::PREFIX)?))
}

/// What clients of a group have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "there are few")]
pub enum GroupFrom {
    /// A network, or a word for networks.
    Network(NetworkOr<Clients>),
    /// The MAC address of the host.
    Mac(MacAddress),
    /// The TSIG key that signs queries.
    Key(LowerNameBuf),
    /// The identifier of the client, in an EDNS option or as it writes it for itself.
    Device(Box<[u8]>),
    /// The tag of the client, in an EDNS option.
    Tag(u16),
}

impl Value for GroupFrom {
    fn kind() -> String {
        let networks = NetworkOr::<Clients>::kind();
        format!("{networks}, `mac:ADDRESS`, `key:NAME`, `client-id:NAME` or `edns-tag:NUMBER`")
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        let text = node.get_ref().as_str().unwrap_or_default();
        if let Some(address) = text.strip_prefix("mac:") {
            let parse = |_: &str| address.parse().map_err(|fault| format!("`{address}` is {fault}"));
            return reader.text(node, "a MAC address", parse).map(GroupFrom::Mac);
        }
        if let Some(name) = text.strip_prefix("key:") {
            return read_key(name, node, reader).map(GroupFrom::Key);
        }
        if let Some(name) = text.strip_prefix("client-id:") {
            let parse = |_: &str| match name.len() {
                1..=MAX_CLIENT_ID => Ok(name.as_bytes().into()),
                len => Err(format!(
                    "the identifier of a client has {len} bytes, and 1 to {MAX_CLIENT_ID} are possible"
                )),
            };
            return reader.text(node, "the identifier of a client", parse).map(GroupFrom::Device);
        }
        if let Some(tag) = text.strip_prefix("edns-tag:") {
            let parse = |_: &str| tag.parse().map_err(|_| format!("`{tag}` is not a tag from 0 to 65535"));
            return reader.text(node, "the tag of a client", parse).map(GroupFrom::Tag);
        }
        NetworkOr::read(node, reader).map(GroupFrom::Network)
    }
    fn render(&self) -> Option<String> {
        match self {
            GroupFrom::Network(network) => network.render(),
            GroupFrom::Mac(address) => Some(quote(&format!("mac:{address}"))),
            GroupFrom::Key(name) => Some(quote(&format!("key:{}", name.as_name()))),
            GroupFrom::Device(name) => Some(quote(&format!("client-id:{}", String::from_utf8_lossy(name)))),
            GroupFrom::Tag(tag) => Some(quote(&format!("edns-tag:{tag}"))),
        }
    }
}

impl PolicySchedule {
    /// Returns the schedule as rules may name it, if it has a name.
    pub(super) fn named(&self) -> Option<NamedSchedule<'_>> {
        let (name, group) = (self.name.value.as_deref()?, self.group.value.as_str());
        Some(NamedSchedule { name, group })
    }
}

impl PolicyGroup {
    /// Returns which clients are in the group, without the addresses of hosts that it names by MAC address.
    /// Members with the same condition on the address of this server are one part.
    fn rule(&self, interfaces: &Interfaces) -> GroupRule {
        let mut all: Vec<Option<OnAddress>> = Vec::new();
        for member in self.from.iter() {
            if !all.contains(&member.value.on) {
                all.push(member.value.on);
            }
        }
        GroupRule { parts: all.into_iter().map(|on| self.part(on, interfaces)).collect() }
    }

    /// Returns the clients whose members have this condition on the address of this server.
    fn part(&self, on: Option<OnAddress>, interfaces: &Interfaces) -> GroupPart {
        let members = || self.from.iter().map(|from| &from.value).filter(|member| member.on == on);
        let network = |member: &GroupMember| match member.clients {
            GroupFrom::Network(network) => Some(At::unwritten(network)),
            _ => None,
        };
        let key = |member: &GroupMember| match member.clients {
            GroupFrom::Key(name) => Some(name),
            _ => None,
        };
        let id = |member: &GroupMember| match &member.clients {
            GroupFrom::Mac(address) => Some(ClientId::Mac(address.0)),
            GroupFrom::Device(name) => Some(ClientId::Device(name.clone())),
            GroupFrom::Tag(tag) => Some(ClientId::Tag(*tag)),
            GroupFrom::Network(_) | GroupFrom::Key(_) => None,
        };
        let networks: Vec<_> = members().filter_map(network).collect();
        let mut clients = rule(&networks, self.interface.as_ref(), self.proto.as_ref(), interfaces);
        if let Some(OnAddress(on)) = on {
            let is_of_interface = |all: &Vec<LocalAddress>| all.contains(&on.address.into());
            let is_possible = clients.local.as_ref().is_none_or(is_of_interface);
            clients.local = Some(if is_possible { vec![on] } else { Vec::new() });
        }
        GroupPart {
            clients,
            keys: members().filter_map(key).collect(),
            ids: members().filter_map(id).collect(),
        }
    }

    /// Returns the TSIG keys whose queries are those of the group, with their places.
    pub(super) fn keys(&self) -> impl Iterator<Item = (LowerNameBuf, Option<&ConfigPlace>)> {
        self.from.iter().filter_map(|from| match from.value.clients {
            GroupFrom::Key(name) => Some((name, from.place.as_ref())),
            _ => None,
        })
    }
}

/// The name of a list that counts; there may be none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListName(pub String);

impl Value for ListName {
    const MAY_BE_NONE: bool = true;

    fn kind() -> String {
        String::kind()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        String::read(node, reader).map(ListName)
    }
    fn render(&self) -> Option<String> {
        self.0.render()
    }
}

/// The name of a response policy zone that counts; there may be none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyZoneName(pub NameBuf);

impl Value for PolicyZoneName {
    const MAY_BE_NONE: bool = true;

    fn kind() -> String {
        NameBuf::kind()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        NameBuf::read(node, reader).map(PolicyZoneName)
    }
    fn render(&self) -> Option<String> {
        self.0.render()
    }
}

/// A day of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Weekday {
    /// Monday.
    Monday,
    /// Tuesday.
    Tuesday,
    /// Wednesday.
    Wednesday,
    /// Thursday.
    Thursday,
    /// Friday.
    Friday,
    /// Saturday.
    Saturday,
    /// Sunday.
    Sunday,
}

impl Weekday {
    fn all() -> Vec<At<Weekday>> {
        Self::WORDS.iter().map(|(_, day)| At::unwritten(*day)).collect()
    }
}

impl Word for Weekday {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("mon", Self::Monday),
        ("tue", Self::Tuesday),
        ("wed", Self::Wednesday),
        ("thu", Self::Thursday),
        ("fri", Self::Friday),
        ("sat", Self::Saturday),
        ("sun", Self::Sunday),
    ];
}

/// A time of day, in minutes since midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeOfDay(pub u16);

impl Value for TimeOfDay {
    fn kind() -> String {
        "time of day".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        let parse = |text: &str| {
            let time = text.split_once(':').filter(|(hour, minute)| hour.len() == 2 && minute.len() == 2);
            let number = |digits: &str| digits.parse::<u16>().ok();
            let time = time.and_then(|(hour, minute)| Some((number(hour)?, number(minute)?)));
            let time = time.filter(|(hour, minute)| *hour < 24 && *minute < 60);
            let time = time.map(|(hour, minute)| TimeOfDay(hour * 60 + minute));
            time.ok_or_else(|| format!("`{text}` is not a time of day from \"00:00\" to \"23:59\""))
        };
        reader.text(node, "a time of day such as \"20:30\"", parse)
    }
    fn render(&self) -> Option<String> {
        Some(quote(&format!("{:02}:{:02}", self.0 / 60, self.0 % 60)))
    }
}

/// A time zone of the IANA database.
#[derive(Debug, Clone, PartialEq)]
pub struct ZoneOfTime(pub jiff::tz::TimeZone);

impl Value for ZoneOfTime {
    fn kind() -> String {
        "time zone".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        let parse = |text: &str| {
            let zone = jiff::tz::TimeZone::get(text);
            zone.map(ZoneOfTime).map_err(|_| {
                format!("`{text}` is no time zone of this machine's database (/usr/share/zoneinfo)")
            })
        };
        reader.text(node, "a time zone such as \"Europe/Berlin\"", parse)
    }
    fn render(&self) -> Option<String> {
        self.0.iana_name().map(quote)
    }
}

/// What counts for clients.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleSelection {
    /// Names of lists; `None`: all.
    pub lists: Option<Vec<String>>,
    /// Names of response policy zones; `None`: all.
    pub zones: Option<Vec<NameBuf>>,
    /// Whether search engines leave adult content out.
    pub safe_search: bool,
}

/// A group of clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupConfig {
    /// Its name.
    pub name: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// Which clients are in it, without the addresses of hosts.
    pub rule: GroupRule,
    /// Hosts on attached links that are in it, by MAC address.
    pub macs: Vec<MacAddress>,
    /// What counts for it.
    pub selection: RuleSelection,
    /// Most queries per second of one client; `None`: no limit.
    pub queries: Option<u32>,
}

/// A time at which something else counts for a group.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleConfig {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The group; [`DEFAULT_GROUP`] for clients in no group.
    pub group: String,
    days: Vec<Weekday>,
    start: TimeOfDay,
    end: TimeOfDay,
    time_zone: Option<ZoneOfTime>,
    /// What counts at this time.
    pub selection: RuleSelection,
}

impl ScheduleConfig {
    /// Whether a moment is in the time of the schedule.
    pub fn holds(&self, at: jiff::Timestamp) -> bool {
        let zone = self.time_zone.as_ref().map_or_else(jiff::tz::TimeZone::system, |zone| zone.0.clone());
        let local = at.to_zoned(zone);
        let minute = TimeOfDay(u16::from(local.hour() as u8) * 60 + u16::from(local.minute() as u8));
        let today = local.weekday().to_monday_zero_offset() as u8;
        let begins_on = |day: u8| self.days.iter().any(|own| *own as u8 == day);
        let (before, after) = (minute < self.end, minute >= self.start);
        if self.start < self.end {
            return before && after && begins_on(today);
        }
        (after && begins_on(today)) || (before && begins_on((today + 6) % 7))
    }
}

/// The settings of all groups.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GroupsConfig {
    /// What counts for clients in no group.
    pub others: RuleSelection,
    /// The groups, in the order of the configuration.
    pub groups: Vec<GroupConfig>,
    /// Times at which something else counts.
    pub schedules: Vec<ScheduleConfig>,
    /// Most queries per second of one client in no group; `None`: no limit.
    pub queries: Option<u32>,
    /// Networks whose clients are trusted to say in options for which client they ask.
    pub trusted: Vec<Prefix>,
}

/// The name of the group of clients in no group.
pub const DEFAULT_GROUP: &str = "default";

impl NamedGroups for Vec<At<PolicyGroup>> {
    fn names(&self) -> Vec<&str> {
        self.iter().map(|group| group.name.value.as_str()).chain([DEFAULT_GROUP]).collect()
    }

    fn rules(&self, interfaces: &Interfaces) -> Vec<GroupRule> {
        self.iter().map(|group| group.rule(interfaces)).collect()
    }
}

impl GroupsConfig {
    /// Whether any clients have safe search at any time.
    pub fn safe_search(&self) -> bool {
        let groups = self.groups.iter().map(|group| &group.selection);
        let schedules = self.schedules.iter().map(|schedule| &schedule.selection);
        groups.chain(schedules).chain([&self.others]).any(|selection| selection.safe_search)
    }

    /// Returns what counts for a group at a moment.
    pub fn selection<'c>(
        &'c self,
        group: &str,
        usual: &'c RuleSelection,
        at: jiff::Timestamp,
    ) -> &'c RuleSelection {
        self.schedule(group, at).map_or(usual, |schedule| &schedule.selection)
    }

    /// Returns the schedule of a group that is in force at a moment, if one is.
    pub fn schedule(&self, group: &str, at: jiff::Timestamp) -> Option<&ScheduleConfig> {
        let mut schedules = self.schedules.iter().filter(|schedule| schedule.group == group);
        schedules.find(|schedule| schedule.holds(at))
    }
}

fn selection(
    lists: &Option<Vec<At<ListName>>>,
    zones: &Option<Vec<At<PolicyZoneName>>>,
    safe_search: bool,
) -> RuleSelection {
    RuleSelection {
        lists: lists.as_ref().map(|lists| lists.iter().map(|list| list.value.0.clone()).collect()),
        zones: zones.as_ref().map(|zones| zones.iter().map(|zone| zone.value.0).collect()),
        safe_search,
    }
}

/// Returns the networks of trusted forwarders.
pub(super) fn trusted(others: &SelectionKeys) -> Vec<Prefix> {
    let networks = others.ids_from.value.iter().flatten();
    networks.map(|network| network.value.to_canonical()).collect()
}

/// Returns the settings of all groups on a machine with these interfaces.
pub(super) fn config(
    others: &SelectionKeys,
    groups: &[At<PolicyGroup>],
    schedules: &[At<PolicySchedule>],
    interfaces: &Interfaces,
) -> GroupsConfig {
    let group = |group: &At<PolicyGroup>| GroupConfig {
        name: group.name.value.clone(),
        tags: group.tags.iter().map(|tag| tag.value.clone()).collect(),
        rule: group.rule(interfaces),
        macs: group
            .from
            .iter()
            .filter_map(|from| match from.value.clients {
                GroupFrom::Mac(address) => Some(address),
                _ => None,
            })
            .collect(),
        selection: selection(&group.lists, &group.zones, *group.safe_search),
        queries: group.queries.value.map(|rate| rate.0),
    };
    let schedule = |schedule: &At<PolicySchedule>| ScheduleConfig {
        name: schedule.name.value.clone(),
        group: schedule.group.value.clone(),
        days: schedule.days.iter().map(|day| day.value).collect(),
        start: *schedule.start,
        end: *schedule.end,
        time_zone: schedule.time_zone.value.clone(),
        selection: selection(&schedule.lists, &schedule.zones, *schedule.safe_search),
    };
    GroupsConfig {
        others: selection(&others.lists, &others.zones, *others.safe_search),
        groups: groups.iter().map(group).collect(),
        schedules: schedules.iter().map(schedule).collect(),
        queries: others.queries.value.map(|rate| rate.0),
        trusted: trusted(others),
    }
}

/// Most bytes of the identifier of a client.
pub const MAX_CLIENT_ID: usize = 255;

/// Most groups, and most rules of all groups.
const MAX_GROUPS: usize = 64;

/// The names that groups refer to.
pub(super) struct Known<'c> {
    pub(super) lists: Vec<&'c str>,
    pub(super) zones: Vec<NameBuf>,
    pub(super) is_recursive: bool,
    /// Clients can write identifiers for themselves.
    pub(super) has_client_names: bool,
}

impl Known<'_> {
    /// Reports names of lists and zones that there are not.
    fn check(
        &self,
        lists: &Option<Vec<At<ListName>>>,
        zones: &Option<Vec<At<PolicyZoneName>>>,
        faults: &mut Vec<Diagnostic>,
    ) {
        for list in lists.iter().flatten() {
            if !self.lists.contains(&list.value.0.as_str()) {
                let message = format!("there is no [[policy.list]] named `{}`", list.value.0);
                faults.push(Diagnostic::at(list.place.as_ref(), message));
            }
        }
        for zone in zones.iter().flatten() {
            if !self.zones.contains(&zone.value.0) {
                let message = format!("there is no [[policy.zone]] named `{}`", zone.value.0);
                faults.push(Diagnostic::at(zone.place.as_ref(), message));
            }
        }
    }
}

/// Reports too many groups, and groups with too many addresses of this server.
fn check_number(groups: &[At<PolicyGroup>], faults: &mut Vec<Diagnostic>) {
    if let Some(more) = groups.get(MAX_GROUPS) {
        let message = format!("{} groups, and there can be {MAX_GROUPS}", groups.len());
        faults.push(Diagnostic::at(more.place.as_ref(), message));
        return;
    }
    let mut parts = 0;
    for group in groups {
        parts += group.rule(&Interfaces::default()).parts.len();
        if parts > MAX_GROUPS {
            let message = format!(
                "the groups up to this one are {parts} rules, and there can be {MAX_GROUPS}: each group is one, \
                 and one more for each further address `on:ADDRESS` in its `from`"
            );
            faults.push(Diagnostic::at(group.from.place.as_ref(), message));
            return;
        }
    }
}

/// Reports clients by identifiers and tags that nothing can send.
fn check_identifiers(
    others: &SelectionKeys,
    groups: &[At<PolicyGroup>],
    known: &Known<'_>,
    faults: &mut Vec<Diagnostic>,
) {
    let by_option = |from: &&At<GroupMember>| match from.value.clients {
        GroupFrom::Device(_) => !known.has_client_names,
        GroupFrom::Tag(_) => true,
        _ => false,
    };
    if others.ids_from.is_none()
        && let Some(from) = groups.iter().flat_map(|group| &group.from.value).find(by_option)
    {
        let (message, hint) = match from.value.clients {
            GroupFrom::Device(_) => (
                "the group has clients by an identifier, and no forwarder is trusted to send one",
                "name the networks of forwarders in `client-ids-from` of [policy], or where clients themselves \
                 write it in `client-ids` of [server]",
            ),
            _ => (
                "the group has clients by an EDNS option, and no forwarder is trusted to send one",
                "name their networks in `client-ids-from` of [policy]",
            ),
        };
        faults.push(Diagnostic::at(from.place.as_ref(), message).hint(hint));
    }
}

/// Reports names that there are not or that are used twice, times without length, and too many groups.
pub(super) fn check(
    others: &SelectionKeys,
    groups: &[At<PolicyGroup>],
    schedules: &[At<PolicySchedule>],
    known: &Known<'_>,
    faults: &mut Vec<Diagnostic>,
) {
    if let Some(first) = groups.first().filter(|_| !known.is_recursive) {
        let message = "[[policy.group]] has no effect without [resolver]";
        faults.push(Diagnostic::at(first.place.as_ref(), message));
    }
    if others.queries.is_some() && !known.is_recursive {
        let message = "`queries-per-second` has no effect without [resolver]";
        faults.push(Diagnostic::at(others.queries.place.as_ref(), message));
    }
    check_number(groups, faults);
    known.check(&others.lists, &others.zones, faults);
    let mut seen: HashMap<&str, &At<String>> = HashMap::new();
    for group in groups {
        known.check(&group.lists, &group.zones, faults);
        let first = *seen.entry(&group.name.value).or_insert(&group.name);
        if !std::ptr::eq(first, &group.name) {
            let message = format!("group `{}` is defined twice", group.name.value);
            let fault = Diagnostic::at(group.name.place.as_ref(), message);
            faults.push(fault.also(first.place.as_ref(), "first here"));
        }
        if group.name.value == DEFAULT_GROUP {
            let message = format!("`{DEFAULT_GROUP}` is the group of clients in no other group");
            faults.push(Diagnostic::at(group.name.place.as_ref(), message));
        }
    }
    check_identifiers(others, groups, known, faults);
    let names: HashSet<&str> = groups.iter().map(|group| group.name.value.as_str()).collect();
    let mut named: HashMap<&str, Option<&ConfigPlace>> = HashMap::new();
    for schedule in schedules {
        let name = &schedule.name;
        if let Some(text) = &name.value
            && let Some(first) = named.insert(text, name.place.as_ref())
        {
            let message = format!("schedule `{text}` is defined twice");
            faults.push(Diagnostic::at(name.place.as_ref(), message).also(first, "first here"));
        }
        known.check(&schedule.lists, &schedule.zones, faults);
        let group = &schedule.group;
        if !names.contains(group.value.as_str()) && group.value != DEFAULT_GROUP {
            let message = format!("there is no [[policy.group]] named `{}`", group.value);
            faults.push(Diagnostic::at(group.place.as_ref(), message));
        }
        if *schedule.start == *schedule.end {
            let message = "`start` and `end` are the same time";
            faults.push(Diagnostic::at(schedule.end.place.as_ref(), message));
        }
        if schedule.days.is_empty() {
            let message = "a schedule without days has no effect";
            faults.push(Diagnostic::at(schedule.days.place.as_ref(), message));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{AcceptedConfig, read_text};

    const LISTS: &str = "[resolver]\n[[policy.list]]\nname = \"ads\"\nfile = \"f\"\n\
        [[policy.list]]\nname = \"adult\"\nfile = \"f\"\n";

    fn groups(text: &str) -> Result<GroupsConfig, String> {
        let read = read_text("t.toml", format!("{LISTS}{text}"), Path::new("/"));
        read.map(|AcceptedConfig { config, .. }| config.settings.policy_groups(&Interfaces::default()))
            .map_err(|fault| fault.to_string())
    }

    const CHILDREN: &str = "[[policy.group]]\nname = \"children\"\nfrom = [\"192.0.2.0/24\"]\nlists = [\"adult\"]\n\
        safe-search = true\n";

    fn schedule(days: &str) -> ScheduleConfig {
        let text = format!(
            "{CHILDREN}[[policy.schedule]]\ngroup = \"children\"\nstart = \"20:30\"\nend = \"07:00\"\n\
             time-zone = \"Europe/Berlin\"\n{days}"
        );
        groups(&text).expect("good").schedules.remove(0)
    }

    #[test]
    fn a_night_belongs_to_the_day_on_which_it_begins() {
        let of_friday = schedule("days = [\"fri\"]\n");
        let holds = |time: &str| {
            of_friday
                .holds(format!("{time}[Europe/Berlin]").parse::<jiff::Zoned>().expect("a time").timestamp())
        };
        // The 27th of November 2026 is a Friday.
        assert!(!holds("2026-11-27T20:29:59"));
        assert!(holds("2026-11-27T20:30:00"));
        assert!(holds("2026-11-28T06:59:59"));
        assert!(!holds("2026-11-28T07:00:00"));
        assert!(!holds("2026-11-27T03:00:00"), "the night that began on Thursday");
        assert!(!holds("2026-11-28T21:00:00"));
        let of_each_day = schedule("");
        assert!(of_each_day.holds("2026-11-25T23:00:00Z".parse().expect("a time")));
        assert!(!of_each_day.holds("2026-11-25T06:00:00Z".parse().expect("a time")), "07:00 in Berlin");
    }

    #[test]
    fn a_schedule_replaces_what_counts_for_its_group() {
        let text = format!(
            "{CHILDREN}[[policy.schedule]]\ngroup = \"children\"\nstart = \"08:00\"\nend = \"12:00\"\n\
             time-zone = \"UTC\"\nlists = [\"ads\", \"adult\"]\n"
        );
        let groups = groups(&text).expect("good");
        let children = &groups.groups[0].selection;
        assert!(children.safe_search && groups.safe_search());
        let lists = |time: &str| {
            let at = time.parse().expect("a time");
            groups.selection("children", children, at).lists.as_ref().map(Vec::len)
        };
        assert_eq!((lists("2026-11-25T08:00:00Z"), lists("2026-11-25T12:00:00Z")), (Some(2), Some(1)));
        let others = groups.selection(DEFAULT_GROUP, &groups.others, jiff::Timestamp::UNIX_EPOCH);
        assert_eq!(*others, RuleSelection::default(), "all lists");
    }

    #[test]
    fn clients_have_options_of_trusted_forwarders_and_limits() {
        let text = CHILDREN
            .replace("\"192.0.2.0/24\"", "\"mac:0a:11:22:33:44:55\", \"client-id:tablet\", \"edns-tag:7\"")
            .replace("safe-search = true\n", "safe-search = true\nqueries-per-second = 20\n");
        let others = "[policy]\nclient-ids-from = [\"192.0.2.1\"]\nqueries-per-second = 50\n";
        let all = groups(&format!("{text}{others}")).expect("good");
        let ids = [
            ClientId::Mac([0x0a, 0x11, 0x22, 0x33, 0x44, 0x55]),
            ClientId::Device(b"tablet".as_slice().into()),
            ClientId::Tag(7),
        ];
        assert_eq!(
            (&*all.groups[0].rule.parts[0].ids, all.groups[0].queries, all.queries),
            (&ids[..], Some(20), Some(50))
        );
        assert_eq!(all.trusted, ["192.0.2.1/32".parse().expect("a network")]);
        for (from, words) in [
            ("edns-tag:65536", "`65536` is not a tag from 0 to 65535"),
            ("client-id:", "the identifier of a client has 0 bytes"),
            ("client-id:a", "by an identifier, and no forwarder is trusted to send one"),
            ("edns-tag:1", "no forwarder is trusted to send one"),
        ] {
            let fault = groups(&CHILDREN.replace("192.0.2.0/24", from)).expect_err(words);
            assert!(fault.contains(words) && fault.contains("t.toml"), "{words}: {fault}");
        }
        let alone = read_text("t.toml", "[policy]\nqueries-per-second = 5\n".into(), Path::new("/"));
        let alone = alone.expect_err("no resolver").to_string();
        assert!(alone.contains("t.toml:2:") && alone.contains("has no effect without [resolver]"), "{alone}");
    }

    #[test]
    fn clients_have_networks_mac_addresses_and_keys() {
        let from =
            |from: &str| groups(&CHILDREN.replace("\"192.0.2.0/24\"", from)).map(|all| all.groups[0].clone());
        let all = from("\"192.0.2.0/24\", \"mac:0A-11-22-33-44-55\", \"key:Phone\"").expect("good");
        let [part] = &all.rule.parts[..] else { panic!("{all:?}") };
        assert_eq!(part.clients.from, ["192.0.2.0/24".parse().expect("a network")]);
        assert_eq!(all.macs, [MacAddress([0x0a, 0x11, 0x22, 0x33, 0x44, 0x55])]);
        assert_eq!(part.keys.iter().map(|key| key.as_name().to_string()).collect::<Vec<_>>(), ["phone."]);
        for (text, words) in [
            ("\"mac:00:11\"", "`00:11` is not a MAC address"),
            ("\"key:a..b\"", "the name of the key"),
            ("\"192.0.2\"", "`192.0.2` is not a network"),
            ("7", "a network such as"),
        ] {
            let fault = from(text).expect_err(words);
            assert!(fault.contains(words) && fault.contains("t.toml"), "{words}: {fault}");
        }
    }

    #[test]
    fn members_have_addresses_of_this_server() {
        let group = |from: &str, more: &str| {
            let text = CHILDREN.replace("\"192.0.2.0/24\"", from) + more;
            groups(&text).map(|all| all.groups[0].rule.clone())
        };
        let from =
            "\"192.0.2.0/24\", \"any on:192.0.2.53\", \"on:192.0.2.53 key:k\", \"::1 on:[2001:db8::53]@853\"";
        let parts = group(from, "").expect("good").parts;
        let local = |text: &str| text.parse::<OnAddress>().map(|OnAddress(local)| vec![local]).ok();
        let locals: Vec<_> = parts.iter().map(|part| part.clients.local.clone()).collect();
        assert_eq!(locals, [None, local("192.0.2.53"), local("2001:db8::53@853")]);
        let [plain, at, _] = &parts[..] else { panic!("{parts:?}") };
        assert_eq!((plain.clients.from.len(), at.clients.from.len()), (1, 2), "any is of both families");
        assert_eq!((plain.keys.len(), at.keys.len()), (0, 1));
        let elsewhere = group("\"any on:192.0.2.53\"", "interface = [\"no-such\"]\n").expect("good");
        assert_eq!(elsewhere.parts[0].clients.local, Some(Vec::new()), "both conditions must hold");
        let many: Vec<String> = (0..64).map(|n| format!("\"any on:192.0.2.{}\"", n + 1)).collect();
        assert_eq!(group(&many.join(", "), "").map(|rule| rule.parts.len()), Ok(64));
        let more = format!("\"any\", {}", many.join(", "));
        for (from, words) in [
            ("\"on:192.0.2.53\"", "it names no client; write `any on:ADDRESS`"),
            ("\"any on:eth0\"", "`eth0` is not an address of this server; write `on:192.0.2.53`"),
            ("\"192.0.2 on:192.0.2.53\"", "`192.0.2` is not a network"),
            (&more, "the groups up to this one are 65 rules, and there can be 64"),
        ] {
            let fault = group(from, "").expect_err(words);
            assert!(fault.contains(words) && fault.contains("t.toml"), "{words}: {fault}");
        }
    }

    #[test]
    fn what_there_is_not_is_reported() {
        for (text, words) in [
            (CHILDREN.replace("[\"adult\"]", "[\"adults\"]"), "there is no [[policy.list]] named `adults`"),
            (format!("{CHILDREN}zones = [\"rpz.test\"]\n"), "there is no [[policy.zone]] named `rpz.test.`"),
            (format!("{CHILDREN}{CHILDREN}"), "group `children` is defined twice"),
            (CHILDREN.replace("\"children\"", "\"default\""), "the group of clients in no other group"),
            ("[[policy.schedule]]\ngroup = \"a\"\nstart = \"08:00\"\nend = \"09:00\"\n".into(), "named `a`"),
            ("[[policy.schedule]]\ngroup = \"default\"\nstart = \"08:00\"\nend = \"08:00\"\n".into(), "the same time"),
            ("[[policy.schedule]]\ngroup = \"default\"\nstart = \"8:00\"\nend = \"24:00\"\n".into(), "not a time of day"),
            (
                "[[policy.schedule]]\ngroup = \"default\"\nstart = \"08:00\"\nend = \"09:00\"\ntime-zone = \"Mars\"\n".into(),
                "`Mars` is no time zone",
            ),
            ("[policy]\nlists = [\"no\"]\n".into(), "there is no [[policy.list]] named `no`"),
        ] {
            let fault = groups(&text).expect_err(words);
            assert!(fault.contains(words), "{words}: {fault}");
        }
    }
}
