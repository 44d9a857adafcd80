//! Rules of groups: which clients have which rules of their own, and what keeps their answers apart.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;
use std::path::PathBuf;

use recursion::{AccessRule, PartitionedGroup, PartitionsConfig};
use resolver::Partition;

use super::asking::{Forward, Stub};
use crate::interfaces::Interfaces;
use crate::report::Diagnostic;
use crate::table::read::At;
use crate::upstreams::UpstreamServer;

/// The groups of clients that rules may name.
pub(crate) trait NamedGroups: Debug {
    /// Returns their names in order. The last is that of the clients in no group.
    fn names(&self) -> Vec<&str>;
    /// Returns the clients of each group in order, on a machine with these interfaces.
    fn clients(&self, interfaces: &Interfaces) -> Vec<AccessRule>;
    /// Returns the first group with clients by MAC address or TSIG key, if there is one.
    fn beyond_address(&self) -> Option<&str>;
}

/// What a rule is for.
#[derive(Clone, Copy)]
pub(super) struct RuleFacts<'s> {
    domain: &'s At<wire::NameBuf>,
    servers: &'s [At<UpstreamServer>],
    groups: Option<&'s Vec<At<String>>>,
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
            ca_file: rule.ca_file.value.as_ref(),
            way,
        }
    }

    pub(super) fn of_stub(rule: &'s Stub) -> Self {
        RuleFacts {
            domain: &rule.domain,
            servers: &rule.servers,
            groups: rule.groups.value.as_ref(),
            ca_file: rule.ca_file.value.as_ref(),
            way: "stub",
        }
    }

    /// Returns the rule as text, which is equal for rules with equal answers.
    fn text(&self) -> String {
        let servers: BTreeSet<String> = self.servers.iter().map(|server| server.value.to_string()).collect();
        let servers: Vec<String> = servers.into_iter().collect();
        let ca_file = self.ca_file.map(|path| format!(" {}", path.display())).unwrap_or_default();
        format!("{} {} {}{ca_file}", self.domain.as_name().to_lower(), self.way, servers.join(" "))
    }
}

/// The partition of each group, by its name.
pub(super) struct GroupPartitions<'s>(Vec<(&'s str, Partition)>);

impl<'s> GroupPartitions<'s> {
    /// Groups with the same rules of their own are in one partition, whose number follows from these rules.
    pub(super) fn new(groups: &'s dyn NamedGroups, rules: &[RuleFacts<'_>]) -> Self {
        let own = |group: &str| {
            let names =
                |rule: &RuleFacts<'_>| rule.groups.is_some_and(|all| all.iter().any(|g| g.value == group));
            let own: BTreeSet<String> =
                rules.iter().filter(|rule| names(rule)).map(RuleFacts::text).collect();
            own.into_iter().collect::<Vec<_>>().join("\n")
        };
        let texts: Vec<(&str, String)> = groups.names().into_iter().map(|name| (name, own(name))).collect();
        let mut numbers: BTreeMap<&str, Partition> = BTreeMap::new();
        let once: BTreeSet<&str> = texts.iter().map(|(_, text)| &**text).collect();
        for text in once {
            let mut number = fingerprint(text);
            while numbers.values().any(|other| other.number() == number) {
                number = number.wrapping_add(1).max(1);
            }
            numbers
                .insert(text, if text.is_empty() { Partition::SHARED } else { Partition::numbered(number) });
        }
        let partition = |text: &String| numbers.get(&**text).copied().unwrap_or_default();
        GroupPartitions(texts.iter().map(|(name, text)| (*name, partition(text))).collect())
    }

    /// Returns the partitions that a rule is for.
    pub(super) fn of(&self, rule: RuleFacts<'_>) -> Vec<Partition> {
        let Some(groups) = rule.groups else { return vec![Partition::SHARED] };
        let by_name: HashMap<&str, Partition> = self.0.iter().copied().collect();
        let all: BTreeSet<Partition> =
            groups.iter().filter_map(|group| by_name.get(group.value.as_str()).copied()).collect();
        all.into_iter().collect()
    }

    /// Returns which clients are in which partition.
    pub(super) fn config(&self, clients: Vec<AccessRule>) -> PartitionsConfig {
        let Some(((_, others), groups)) = self.0.split_last() else { return PartitionsConfig::default() };
        let group = |((name, partition), clients): (&(&str, Partition), AccessRule)| PartitionedGroup {
            name: (*name).to_owned(),
            clients,
            partition: *partition,
        };
        PartitionsConfig { groups: groups.iter().zip(clients).map(group).collect(), others: *others }
    }
}

/// Returns a number for a text other than 0: FNV-1a, folded.
fn fingerprint(text: &str) -> u32 {
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, fold);
    ((hash >> 32) as u32 ^ hash as u32).max(1)
}

/// Reports rules of groups beside groups whose clients are not known by their address alone: a rule's answers
/// are kept apart by address, interface and transport.
pub(super) fn check(
    forwards: &[At<Forward>],
    stubs: &[At<Stub>],
    groups: &dyn NamedGroups,
    faults: &mut Vec<Diagnostic>,
) {
    let Some(beyond) = groups.beyond_address() else { return };
    let of_forwards = forwards.iter().filter_map(|rule| rule.groups.value.as_ref());
    let of_stubs = stubs.iter().filter_map(|rule| rule.groups.value.as_ref());
    if let Some(named) = of_forwards.chain(of_stubs).find_map(|groups| groups.first()) {
        let message = format!(
            "rules of groups need groups by address, interface and transport alone, and `{beyond}` has a MAC \
             address or a key"
        );
        faults.push(Diagnostic::at(named.place.as_ref(), message));
    }
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
        let PartitionsConfig { groups, others } = policy.partitions;
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
    fn groups_by_more_than_the_address_have_no_rules() {
        let phones = "[[policy.group]]\nname = \"phones\"\nfrom = [\"mac:00:11:22:33:44:55\"]\n";
        let of_group = rule("corp.example", STAFF, "192.0.2.53");
        let fault =
            settings(&format!("{of_group}{phones}")).expect_err("the client's group is not its partition's");
        assert!(fault.contains("`phones` has a MAC address or a key") && fault.contains("t.toml"), "{fault}");
        assert!(settings(&format!("{}{phones}", rule("corp.example", "", "192.0.2.53"))).is_ok());
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
