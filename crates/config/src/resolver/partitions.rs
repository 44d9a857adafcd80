//! Rules of groups: which clients have which rules of their own, and what keeps their answers apart.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::PathBuf;

use query_path::GroupRule;
use recursion::{PartitionedGroup, PartitionsConfig};
use resolver::Partition;
use wire::Prefix;

use super::asking::{Forward, Stub};
use crate::interfaces::Interfaces;
use crate::table::read::At;
use crate::upstreams::UpstreamServer;

/// The groups of clients that rules may name.
pub(crate) trait NamedGroups: Debug {
    /// Returns their names in order. The last is that of the clients in no group.
    fn names(&self) -> Vec<&str>;
    /// Returns which clients are in each group in order, on a machine with these interfaces.
    fn rules(&self, interfaces: &Interfaces) -> Vec<GroupRule>;
}

/// A schedule that rules may name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamedSchedule<'s> {
    /// Its name.
    pub(crate) name: &'s str,
    /// Its group.
    pub(crate) group: &'s str,
}

/// By the name of a schedule, the partition of its group while the schedule is in force.
pub type ScheduledPartitions = BTreeMap<String, Partition>;

/// What a rule is for.
#[derive(Clone, Copy)]
pub(super) struct RuleFacts<'s> {
    domain: &'s At<wire::NameBuf>,
    servers: &'s [At<UpstreamServer>],
    groups: Option<&'s Vec<At<String>>>,
    schedules: Option<&'s Vec<At<String>>>,
    /// The authorities of servers over TLS.
    ca_file: Option<&'s PathBuf>,
    /// What else decides about the answers.
    way: &'static str,
}

impl<'s> RuleFacts<'s> {
    pub(super) fn of_forward(rule: &'s Forward) -> Self {
        let way = if *rule.first { "first" } else { "" };
        RuleFacts {
            domain: &rule.domain,
            servers: &rule.servers,
            groups: rule.groups.value.as_ref(),
            schedules: rule.schedules.value.as_ref(),
            ca_file: rule.ca_file.value.as_ref(),
            way,
        }
    }

    pub(super) fn of_stub(rule: &'s Stub) -> Self {
        RuleFacts {
            domain: &rule.domain,
            servers: &rule.servers,
            groups: rule.groups.value.as_ref(),
            schedules: rule.schedules.value.as_ref(),
            ca_file: rule.ca_file.value.as_ref(),
            way: "stub",
        }
    }

    /// Whether the rule names this group.
    fn is_of(&self, group: &str) -> bool {
        self.groups.is_some_and(|groups| groups.iter().any(|own| own.value == group))
    }

    /// Whether the rule names this schedule.
    fn is_at(&self, schedule: &str) -> bool {
        self.schedules.is_some_and(|schedules| schedules.iter().any(|own| own.value == schedule))
    }

    /// Whether the rule counts for a group while this schedule of the group is in force, or none. Of two
    /// rules for one domain, the one that names the schedule does.
    fn counts(&self, group: &str, schedule: Option<&str>, rules: &[RuleFacts<'_>]) -> bool {
        let is_replaced = |schedule: &str| {
            let same = |other: &&RuleFacts<'_>| other.domain.value == self.domain.value && other.is_of(group);
            rules.iter().filter(same).any(|other| other.is_at(schedule))
        };
        let holds = match (self.schedules, schedule) {
            (None, None) => true,
            (None, Some(schedule)) => !is_replaced(schedule),
            (Some(_), None) => false,
            (Some(_), Some(schedule)) => self.is_at(schedule),
        };
        holds && self.is_of(group)
    }

    /// Returns the rule as text, which is equal for rules with equal answers.
    fn text(&self) -> String {
        let servers: BTreeSet<String> = self.servers.iter().map(|server| server.value.to_string()).collect();
        let servers: Vec<String> = servers.into_iter().collect();
        let ca_file = self.ca_file.map(|path| format!(" {}", path.display())).unwrap_or_default();
        format!("{} {} {}{ca_file}", self.domain.as_name().to_lower(), self.way, servers.join(" "))
    }
}

/// The partition of a group, while a schedule of the group is in force or none.
struct OwnPartition<'s> {
    group: &'s str,
    schedule: Option<&'s str>,
    partition: Partition,
}

/// The partitions of all groups.
pub(super) struct GroupPartitions<'s> {
    /// Of each group without a schedule, in their order, then with each of its schedules.
    all: Vec<OwnPartition<'s>>,
    rules: Vec<RuleFacts<'s>>,
}

impl<'s> GroupPartitions<'s> {
    /// Groups with the same rules of their own are in one partition, whose number follows from these rules.
    pub(super) fn new(
        groups: &'s dyn NamedGroups,
        schedules: &[NamedSchedule<'s>],
        rules: Vec<RuleFacts<'s>>,
    ) -> Self {
        let own = |group: &str, schedule: Option<&str>| {
            let own = rules.iter().filter(|rule| rule.counts(group, schedule, &rules));
            let own: BTreeSet<String> = own.map(RuleFacts::text).collect();
            own.into_iter().collect::<Vec<_>>().join("\n")
        };
        let of_groups = groups.names().into_iter().map(|group| (group, None));
        let of_schedules = schedules.iter().map(|schedule| (schedule.group, Some(schedule.name)));
        let texts: Vec<(&str, Option<&str>, String)> =
            of_groups.chain(of_schedules).map(|(group, at)| (group, at, own(group, at))).collect();
        let mut numbers: BTreeMap<&str, Partition> = BTreeMap::new();
        let once: BTreeSet<&str> = texts.iter().map(|(.., text)| &**text).collect();
        for text in once {
            let mut number = fingerprint(text);
            while numbers.values().any(|other| other.number() == number) {
                number = number.wrapping_add(1).max(1);
            }
            numbers
                .insert(text, if text.is_empty() { Partition::SHARED } else { Partition::numbered(number) });
        }
        let partition = |(group, schedule, text): &(&'s str, Option<&'s str>, String)| OwnPartition {
            group,
            schedule: *schedule,
            partition: numbers.get(&**text).copied().unwrap_or_default(),
        };
        let all = texts.iter().map(partition).collect();
        GroupPartitions { all, rules }
    }

    /// Returns the partitions that a rule is for.
    pub(super) fn of(&self, rule: RuleFacts<'_>) -> Vec<Partition> {
        if rule.groups.is_none() {
            return vec![Partition::SHARED];
        }
        let own = self.all.iter().filter(|own| rule.counts(own.group, own.schedule, &self.rules));
        let all: BTreeSet<Partition> = own.map(|own| own.partition).collect();
        all.into_iter().collect()
    }

    /// Returns which clients are in which partition while no schedule is in force.
    pub(super) fn config(&self, rules: Vec<GroupRule>, trusted: Vec<Prefix>) -> PartitionsConfig {
        let mut usual = self.all.iter().filter(|own| own.schedule.is_none());
        let Some(others) = usual.next_back() else { return PartitionsConfig::default() };
        // The last without a schedule is that of clients in no group, and has no rule.
        let group = |(own, rule): (&OwnPartition<'_>, GroupRule)| PartitionedGroup {
            name: own.group.to_owned(),
            rule,
            partition: own.partition,
        };
        PartitionsConfig { groups: usual.zip(rules).map(group).collect(), others: others.partition, trusted }
    }

    /// Returns the partitions of groups while schedules are in force.
    pub(super) fn scheduled(&self) -> ScheduledPartitions {
        let named = self.all.iter().filter_map(|own| Some((own.schedule?.to_owned(), own.partition)));
        named.collect()
    }
}

/// Returns a number for a text other than 0: FNV-1a, folded.
fn fingerprint(text: &str) -> u32 {
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, fold);
    ((hash >> 32) as u32 ^ hash as u32).max(1)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{AcceptedConfig, Settings, read_text};

    const GROUPS: &str = "[resolver]\n[[policy.group]]\nname = \"staff\"\nfrom = [\"192.0.2.0/24\"]\n\
        [[policy.group]]\nname = \"lab\"\nfrom = [\"198.51.100.0/24\"]\n\
        [[policy.group]]\nname = \"guests\"\nfrom = [\"203.0.113.0/24\"]\n";

    fn settings(text: &str) -> Result<Settings, String> {
        let read = read_text("t.toml", format!("{GROUPS}{text}"), Path::new("/"));
        read.map(|AcceptedConfig { config, .. }| config.settings).map_err(|fault| fault.to_string())
    }

    fn rule(domain: &str, groups: &str, server: &str) -> String {
        format!("[[resolver.forward]]\ndomain = \"{domain}\"\n{groups}servers = [\"{server}\"]\n")
    }

    /// The partitions of staff, lab, guests, and clients in no group.
    fn partitions(text: &str) -> [u32; 4] {
        let settings = settings(text).expect("good");
        let policy = settings.recursive().expect("on").policy_config(&Interfaces::default());
        let PartitionsConfig { groups, others, .. } = policy.partitions;
        let all: Vec<u32> = groups.iter().map(|group| group.partition.number()).collect();
        [all[0], all[1], all[2], others.number()]
    }

    const STAFF: &str = "groups = [\"staff\"]\n";
    const BOTH: &str = "groups = [\"lab\", \"staff\"]\n";

    #[test]
    fn groups_with_the_same_rules_share_a_partition() {
        assert_eq!(partitions(&rule("corp.example", "", "192.0.2.53")), [0; 4]);
        let [staff, lab, guests, others] = partitions(&rule("corp.example", BOTH, "192.0.2.53"));
        assert!(staff != 0 && staff == lab && guests == 0 && others == 0);
        let more = rule("corp.example", BOTH, "192.0.2.53") + &rule("lab.example", STAFF, "192.0.2.53");
        let [with_more, same, ..] = partitions(&more);
        assert!(with_more != staff && same == lab, "a partition's number follows from its rules alone");
        let [elsewhere, ..] = partitions(&rule("corp.example", STAFF, "192.0.2.54"));
        assert_ne!(elsewhere, staff, "other servers have other answers");
        let [.., others] = partitions(&rule(".", "groups = [\"default\"]\n", "192.0.2.53"));
        assert_ne!(others, 0);
    }

    #[test]
    fn groups_have_their_keys() {
        let phones =
            "[[policy.group]]\nname = \"phones\"\nfrom = [\"mac:00:11:22:33:44:55\", \"key:Phone\"]\n";
        let text = rule("corp.example", "groups = [\"phones\"]\n", "192.0.2.53") + phones;
        let settings = settings(&text).expect("good");
        let policy = settings.recursive().expect("on").policy_config(&Interfaces::default());
        let of_phones = policy.partitions.groups.last().expect("a group");
        let [part] = &of_phones.rule.parts[..] else { panic!("{of_phones:?}") };
        let keys: Vec<String> = part.keys.iter().map(|key| key.as_name().to_string()).collect();
        assert_eq!(
            (&*of_phones.name, &*keys, part.clients.from.len()),
            ("phones", &["phone.".into()][..], 0)
        );
        assert!(!of_phones.partition.is_shared());
    }

    #[test]
    fn a_rule_with_a_schedule_replaces_that_of_the_group_in_its_time() {
        let schedule = |name: &str, group: &str| {
            format!(
                "[[policy.schedule]]\nname = \"{name}\"\ngroup = \"{group}\"\nstart = \"08:00\"\nend = \"09:00\"\n"
            )
        };
        let at = |names: &str| format!("groups = [\"staff\", \"default\"]\nschedules = [{names}]\n");
        let text = rule("a.example", "groups = [\"staff\"]\n", "192.0.2.1")
            + &rule("a.example", &at("\"work\", \"rest\""), "192.0.2.2")
            + &rule("b.example", "groups = [\"staff\"]\n", "192.0.2.3")
            + &[schedule("work", "staff"), schedule("rest", "default"), schedule("other", "staff")].concat();
        let settings = settings(&text).expect("good");
        let recursive = settings.recursive().expect("on");
        let policy = recursive.policy_config(&Interfaces::default());
        let scheduled = recursive.scheduled_partitions();
        let usual = policy.partitions.groups[0].partition;
        assert_eq!((policy.partitions.others.number(), scheduled["other"]), (0, usual));
        let servers = |of: Partition| {
            let own = recursive.forward_config().rules.into_iter().filter(move |rule| rule.partition == of);
            let mut own: Vec<String> =
                own.map(|rule| format!("{} {}", rule.domain, rule.upstreams[0].address.ip())).collect();
            own.sort();
            own
        };
        assert_eq!(servers(usual), ["a.example. 192.0.2.1", "b.example. 192.0.2.3"]);
        assert_eq!(servers(scheduled["work"]), ["a.example. 192.0.2.2", "b.example. 192.0.2.3"]);
        assert_eq!(servers(scheduled["rest"]), ["a.example. 192.0.2.2"]);
    }

    #[test]
    fn each_partition_has_its_rules_and_the_rest_is_for_all() {
        let text = rule("corp.example", BOTH, "192.0.2.53")
            + &rule("lab.example", STAFF, "192.0.2.54")
            + &rule("corp.example", "", "192.0.2.55")
            + &rule(".", STAFF, "192.0.2.56");
        let settings = settings(&text).expect("good");
        let recursive = settings.recursive().expect("on");
        let policy = recursive.policy_config(&Interfaces::default());
        let [staff, lab] = [0, 1].map(|at: usize| policy.partitions.groups[at].partition);
        let domains = |of: Partition| {
            let own = policy.domains.iter().filter(|domain| domain.partition == of);
            let mut own: Vec<String> = own.map(|domain| domain.name.to_string()).collect();
            own.sort();
            own
        };
        assert_eq!(domains(staff), [".", "corp.example.", "lab.example."]);
        assert_eq!(domains(lab), ["corp.example."]);
        assert_eq!(domains(Partition::SHARED), [".", "corp.example."], "the root is iterated");
        let rules = recursive.forward_config().rules;
        let of_staff = rules.iter().filter(|rule| rule.partition == staff);
        assert_eq!((rules.len(), of_staff.count()), (5, 3));
        let forwarded: Vec<String> = policy.local.forwarded.iter().map(ToString::to_string).collect();
        assert_eq!(forwarded, ["corp.example.", "."], "special-use names stay local for all others");
    }

    #[test]
    fn what_cannot_be_is_reported() {
        for (text, words) in [
            (rule("a", "groups = [\"guest\"]\n", "192.0.2.53"), "there is no [[policy.group]] named `guest`"),
            (rule("a", "groups = [\"lab\", \"lab\"]\n", "192.0.2.53"), "the group `lab` is named twice"),
            (rule("a", "groups = []\n", "192.0.2.53"), "the list is empty"),
            (
                rule("a", STAFF, "192.0.2.53") + &rule("a.", BOTH, "192.0.2.54"),
                "there are two rules for a. and the group `staff`",
            ),
            (rule("a", "", "192.0.2.53") + &rule("a", "", "192.0.2.54"), "there are two rules for a."),
            (rule("a", "schedules = [\"s\"]\n", "192.0.2.53"), "`schedules` needs `groups`"),
            (
                rule("a", "groups = [\"lab\"]\nschedules = [\"s\"]\n", "192.0.2.53"),
                "there is no [[policy.schedule]] named `s`",
            ),
            (
                rule("a", "groups = [\"lab\"]\nschedules = [\"s\"]\n", "192.0.2.53")
                    + "[[policy.schedule]]\nname = \"s\"\ngroup = \"staff\"\nstart = \"08:00\"\nend = \"09:00\"\n",
                "the schedule `s` is of the group `staff`, which the rule does not name",
            ),
            (
                "[[policy.schedule]]\nname = \"s\"\ngroup = \"staff\"\nstart = \"08:00\"\nend = \"09:00\"\n"
                    .repeat(2),
                "schedule `s` is defined twice",
            ),
            (
                rule("a", STAFF, "192.0.2.53")
                    + "[[resolver.stub]]\ndomain = \"a\"\ngroups = [\"staff\"]\nservers = [\"192.0.2.54\"]\n",
                "there are two rules for a. and the group `staff`",
            ),
        ] {
            let fault = settings(&text).expect_err(words);
            assert!(fault.contains(words), "{words}: {fault}");
        }
        let refused = "[resolver]\nrefused-domains = [\"a\"]\n".to_owned();
        let text = GROUPS.replace("[resolver]\n", &refused) + &rule("a", STAFF, "192.0.2.53");
        read_text("t.toml", text, Path::new("/")).expect("an exception for the group");
    }
}
