//! Which servers are queried for which names, and how: keys of `[resolver]`, `[[resolver.forward]]` and
//! `[[resolver.stub]]`.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use recursion::Domain;
use resolver::{ForwardLimits, ForwardRule, ForwardTiming, IterateRule, Partition, Reach, Upstream};
use wire::{Name, NameBuf};

use super::partitions::NamedSchedule;
use super::validating::Validating;
use crate::addresses::{SourceAddress, check_sources};
use crate::listen::Opened;
use crate::report::{ConfigPlace, Diagnostic};
use crate::table::keys;
use crate::table::read::At;
use crate::table::value::{AddrPort, Int, Time};
use crate::upstreams::{self, UpstreamServer};
use wording::did_you_mean;

keys! {
    /// Keys about queries to other servers.
    pub struct Asking {
        /// Send names with letters in random case, which a forged reply has to match.
        live "mixed-case" mixed_case: bool = true, example false;
        /// Send cookies, which a forged reply has to match (RFC 7873).
        live "cookies" cookies: bool = true, example false;
        /// Largest reply over UDP in bytes, announced to the servers (RFC 6891 §6.2.3). Larger ones come over
        /// TCP.
        live "udp-size" udp_size: Int<u16, 512, 4096> = Int(1232), example 1400;
        /// Source addresses of queries to other servers, one of each family at most. Unset: the system
        /// chooses.
        live "source" source: Option<Vec<At<SourceAddress>>> = None, example ["192.0.2.53", "2001:db8::53"];
        /// One query in this many goes first to a server other than the fastest, to measure it again; 0: none
        /// does.
        live "explore" explore: Int<u32, 0, 1_000_000> = Int(20), example 50;
    }
}

keys! {
    /// Keys about timeouts and intervals.
    pub struct AskingTimes {
        /// Longest time that a client waits for the servers of a rule; then it gets an expired answer or
        /// SERVFAIL.
        live "client-timeout" client: Time<100, 60_000> = Time::secs(5), example "4s";
        /// Waiting time from which clients are answered at the rate of `pulse`; clients that waited less are
        /// answered at once.
        live "gather-time" gather: Time<0, 10_000> = Time(Duration::from_millis(200)), example "100ms";
        /// Time to the next try if the server's response time is unknown. If the lookup of a server's address
        /// takes twice as long, that of another server is looked up in parallel.
        live "first-timeout" first: Time<10, 10_000> = Time(Duration::from_millis(400)), example "300ms";
        /// Shortest time to the next try, however fast the server is.
        live "min-timeout" min: Time<1, 10_000> = Time(Duration::from_millis(50)), example "20ms";
        /// Longest time to the next try, however slow the server is.
        live "max-timeout" max: Time<100, 60_000> = Time::secs(2), example "3s";
        /// Interval of the queries that test whether a server that does not answer is back.
        live "probe-interval" probe: Time<100, 3_600_000> = Time::secs(1), example "5s";
        /// Time without a query after which a connection to a server is closed.
        live "connection-idle-timeout" idle: Time<100, 600_000> = Time::secs(10), example "30s";
        /// Longest time until a connection over TLS, HTTPS or QUIC is open, its server authenticated.
        live "tls-handshake-timeout" handshake: Time<100, 60_000> = Time::secs(3), example "5s";
        /// Time that missing features of a server are cached: EDNS, cookies, the letter case of names.
        live "remember-faults" remember: Time<1_000, 604_800_000> = Time::secs(900), example "1h";
    }
}

keys! {
    /// Keys about limits on the work that clients can cause.
    pub struct AskingLimits {
        /// Most clients of one network, an IPv4 /24 or an IPv6 /56, that wait at a time.
        live "clients-per-network" per_network: Int<usize, 1, 1_000_000> = Int(1000), example 200;
        /// Most clients of one network that are answered in 10 ms, of those that have waited for
        /// `gather-time`: so delayed answers cannot reach the network in one burst (DNSBomb). 0: no limit.
        live "pulse" pulse: Int<usize, 0, 1_000_000> = Int(32), example 16;
        /// Most clients that wait for the answer to the same query.
        live "clients-per-lookup" per_lookup: Int<usize, 1, 1_000_000> = Int(1000), example 200;
        /// Most queries that wait for their lookup to begin; further ones get SERVFAIL at once, or an expired
        /// answer. Networks take turns, so a busy one delays only itself; queries of a network with fewer
        /// than a sixteenth of this number waiting are admitted until twice as many wait in all.
        restart "queue" queue: Int<usize, 1, 1_000_000> = Int(1000), example 2000;
        /// Most lookups in flight of one rule.
        live "lookups-per-rule" per_rule: Int<usize, 1, 1_000_000> = Int(10_000), example 5000;
        /// Most lookups in flight in all.
        live "lookups" lookups: Int<usize, 1, 1_000_000> = Int(20_000), example 10000;
        /// Most tries for one query, for whatever reason: other servers, lost packets, TCP.
        live "tries" tries: Int<u8, 1, 64> = Int(8), example 6;
        /// Most connections to one server, over TCP, TLS, HTTPS or QUIC.
        live "connections-per-server" connections: Int<usize, 1, 1024> = Int(4), example 8;
        /// Most queries in flight on one connection.
        live "queries-per-connection" pipeline: Int<usize, 1, 10_000> = Int(100), example 50;
        /// Most records of one name and type; replies with more are rejected.
        live "records-per-set" records: Int<usize, 1, 10_000> = Int(256), example 100;
    }
}

keys! {
    /// Resolvers that are queried for the names at and below a domain. Of all forward and stub rules the one
    /// with the longest domain applies.
    pub struct Forward in "[[resolver.forward]]" {
        /// The domain; "." is for all names without another rule.
        live "domain" domain: NameBuf = Name::ROOT.to_buf(), example "example.net";
        /// Groups of clients that the rule is for, `[[policy.group]]` or "default" for clients in no group;
        /// all other clients resolve as if it were not there. For one domain, the rule of a group comes
        /// before a rule without groups. Unset: all clients. [GROUPS.md](GROUPS.md) explains it.
        live "groups" groups: Option<Vec<At<String>>> = None, example ["children"];
        /// Schedules of these groups, `[[policy.schedule]]` by `name`: the rule counts while one of them is
        /// in force, in place of a rule of the group for the same domain without `schedules`. Unset: always.
        live "schedules" schedules: Option<Vec<At<String>>> = None, example ["evening"];
        /// The servers. The fastest is queried first. The default port is 53. A server with `#` is queried
        /// over TLS only, by default at port 853, and authenticated by its name after the `#`, by its key
        /// (`#sha256/` and the base64 of the SHA-256 digest of SubjectPublicKeyInfo; several with commas), or
        /// not at all (`#opportunistic`). `https://host/path@ip` is queried over HTTPS only, `quic://host@ip`
        /// over QUIC only; the address is that of the host. `odoh://target/path@ip?proxy=https://proxy@ip` is
        /// queried by Oblivious DoH through a proxy. [ENCRYPTED-DNS.md](ENCRYPTED-DNS.md) explains it.
        live "servers" servers: Vec<At<UpstreamServer>>, example ["192.0.2.53#dns.example.net", "quic://dns.example.net@2001:db8::53"];
        /// PEM file of the CA certificates that the names of servers are verified with, in place of those of
        /// the system.
        live "ca-file" ca_file: Option<PathBuf> = None, example "/etc/ssl/company-ca.pem";
        /// Query those that are asked in the clear over TCP only.
        live "tcp-only" tcp_only: bool = false, example true;
        /// If none of them answers, resolve the name iteratively, from the root servers or those of
        /// `root-servers`.
        live "forward-first" first: bool = false, example true;
        /// Trust the AD bit of their answers (RFC 4035 §4.9.3), pass it on and do not validate: for servers
        /// that validate, over a path on which no third party can inject packets.
        live "trust-ad" trust_ad: bool = false, example true;
        /// Validate their answers, which must include DNSSEC records. Unset: as `validate` of `[resolver]`,
        /// but not with `trust-ad`, nor for a domain outside the public DNS: `internal`, and special-use
        /// names such as `home.arpa`.
        live "validate" validate: Option<bool> = None, example false;
    }
}

keys! {
    /// Authoritative servers that are queried for the names at and below a domain, such as those of an
    /// internal zone.
    pub struct Stub in "[[resolver.stub]]" {
        /// The domain.
        live "domain" domain: NameBuf, example "corp.example";
        /// Groups of clients that the rule is for, as in `[[resolver.forward]]`. Unset: all clients.
        live "groups" groups: Option<Vec<At<String>>> = None, example ["children"];
        /// Schedules of these groups at whose times the rule counts, as in `[[resolver.forward]]`. Unset:
        /// always.
        live "schedules" schedules: Option<Vec<At<String>>> = None, example ["evening"];
        /// The servers. The default port is 53, and 853 of one with `#`, which is queried over TLS; over
        /// HTTPS or QUIC or by Oblivious DoH as in `[[resolver.forward]]`. The fastest is queried first.
        live "servers" servers: Vec<At<UpstreamServer>>, example ["192.0.2.54#ns1.corp.example", "[2001:db8::54]@8853#ns1.corp.example"];
        /// PEM file of the CA certificates that the names of servers are verified with, in place of those of
        /// the system.
        live "ca-file" ca_file: Option<PathBuf> = None, example "/etc/ssl/company-ca.pem";
        /// Query those that are asked in the clear over TCP only.
        live "tcp-only" tcp_only: bool = false, example true;
        /// Validate their answers. Unset: as `validate` of `[resolver]`, but not for a domain outside the
        /// public DNS: `internal`, and special-use names such as `home.arpa`.
        live "validate" validate: Option<bool> = None, example false;
    }
}

impl Asking {
    /// Returns the source address for servers of one family, if it is configured.
    pub(super) fn source(&self, ipv4: bool) -> Option<IpAddr> {
        let all = self.source.value.iter().flatten().map(|source| source.value.0);
        all.into_iter().find(|source| source.is_ipv4() == ipv4)
    }

    pub(super) fn check(&self, faults: &mut Vec<Diagnostic>) {
        check_sources(&self.source, faults);
    }
}

impl AskingTimes {
    /// Returns the timeouts and intervals.
    pub(super) fn config(&self) -> ForwardTiming {
        ForwardTiming {
            client: self.client.0,
            gather: self.gather.0,
            first_rto: self.first.0,
            min_rto: self.min.0,
            max_rto: self.max.0,
            probe: self.probe.0,
            tcp_idle: self.idle.0,
            handshake: self.handshake.0,
            remember: self.remember.0,
        }
    }

    pub(super) fn check(&self, faults: &mut Vec<Diagnostic>) {
        let (first, min, max) = (&self.first, &self.min, &self.max);
        let mut order = |low: (&str, Duration, &Option<ConfigPlace>),
                         high: (&str, Duration, &Option<ConfigPlace>)| {
            if low.1 > high.1 {
                let message = format!("`{}` is longer than `{}`", low.0, high.0);
                faults.push(Diagnostic::at(low.2.as_ref().or(high.2.as_ref()), message));
            }
        };
        let [first, min, max] = [
            ("first-timeout", first.0, &first.place),
            ("min-timeout", min.0, &min.place),
            ("max-timeout", max.0, &max.place),
        ];
        order(min, first);
        order(first, max);
    }
}

impl AskingLimits {
    /// Returns the largest number of waiting clients of one network.
    pub(super) fn clients_per_network(&self) -> usize {
        self.per_network.0
    }

    /// Returns the limits on the work that clients can cause.
    pub(super) fn config(&self) -> ForwardLimits {
        ForwardLimits {
            clients_per_prefix: self.per_network.0,
            pulse: self.pulse.0,
            clients_per_lookup: self.per_lookup.0,
            lookups_per_rule: self.per_rule.0,
            lookups: self.lookups.0,
            tries: self.tries.0,
            connections: self.connections.0,
            pipeline: self.pipeline.0,
            records_per_set: self.records.0,
        }
    }
}

fn upstreams(servers: &[At<UpstreamServer>], tcp_only: bool) -> Vec<Upstream> {
    let in_clear = if tcp_only { Reach::Tcp } else { Reach::UdpThenTcp };
    servers.iter().map(|server| server.value.upstream(&in_clear)).collect()
}

impl Forward {
    /// Returns the rule for a partition. `root` is the rule for iterating from the root.
    pub(super) fn rule(&self, partition: Partition, root: impl FnOnce() -> IterateRule) -> ForwardRule {
        let instead = (*self.first).then(root);
        ForwardRule {
            instead,
            partition,
            ..ForwardRule::new(self.domain.value, upstreams(&self.servers, *self.tcp_only))
        }
    }

    pub(super) fn domain(&self, partition: Partition, validating: &Validating) -> Domain {
        let unsaid = || !*self.trust_ad && validating.validates(self.domain.as_name());
        let validate = self.validate.value.unwrap_or_else(unsaid);
        Domain { name: self.domain.value, partition, trust_ad: *self.trust_ad, validate }
    }
}

/// Returns warnings about rules whose queries go in the clear as well as encrypted.
pub(crate) fn warnings(forwards: &[At<Forward>], stubs: &[At<Stub>]) -> Vec<Diagnostic> {
    let of_forwards = forwards.iter().flat_map(|rule| {
        let first = rule.first.place.as_ref().filter(|_| *rule.first);
        upstreams::in_clear(&rule.servers, first)
    });
    of_forwards.chain(stubs.iter().flat_map(|rule| upstreams::in_clear(&rule.servers, None))).collect()
}

/// Reads the CA certificates of all rules.
pub(crate) fn read_authorities(forwards: &mut [At<Forward>], stubs: &mut [At<Stub>]) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    for Forward { servers, ca_file, .. } in forwards.iter_mut().map(|rule| &mut rule.value) {
        upstreams::read_authorities(&mut servers.value, ca_file, &mut faults);
    }
    for Stub { servers, ca_file, .. } in stubs.iter_mut().map(|rule| &mut rule.value) {
        upstreams::read_authorities(&mut servers.value, ca_file, &mut faults);
    }
    faults
}

impl Stub {
    pub(super) fn rule(&self, partition: Partition) -> ForwardRule {
        let upstreams = upstreams(&self.servers, *self.tcp_only);
        ForwardRule { partition, recursion_desired: false, ..ForwardRule::new(self.domain.value, upstreams) }
    }

    /// Authoritative servers do not validate their answers, so AD is not trusted.
    pub(super) fn domain(&self, partition: Partition, validating: &Validating) -> Domain {
        let validate = self.validate.value.unwrap_or_else(|| validating.validates(self.domain.as_name()));
        Domain { name: self.domain.value, partition, trust_ad: false, validate }
    }
}

/// What two rules must not have in common: the domain, a group of clients, and a schedule.
type RuleKey<'r> = (&'r NameBuf, Option<&'r str>, Option<&'r str>);

/// Reports two rules for one domain and the same clients, groups that there are not, a stub for the root, and
/// servers that cannot be intended.
pub(super) fn check(
    forwards: &[At<Forward>],
    stubs: &[At<Stub>],
    (groups, schedules): (&[&str], &[NamedSchedule<'_>]),
    opened: &[Opened],
    faults: &mut Vec<Diagnostic>,
) {
    let of_forwards = forwards
        .iter()
        .map(|block| (&block.domain, (&block.groups, &block.schedules), &block.place, &block.servers));
    let of_stubs = stubs
        .iter()
        .map(|block| (&block.domain, (&block.groups, &block.schedules), &block.place, &block.servers));
    let mut seen: HashMap<RuleKey<'_>, Option<&ConfigPlace>> = HashMap::new();
    for (domain, (own, at), block, servers) in of_forwards.chain(of_stubs) {
        check_schedules(own, at, schedules, faults);
        let place = domain.place.as_ref().or(block.as_ref());
        for group in own.value.iter().flatten().filter(|group| !groups.contains(&group.value.as_str())) {
            let message = format!("there is no [[policy.group]] named `{}`", group.value);
            faults.push(Diagnostic::at(group.place.as_ref(), message));
        }
        let mut once = HashSet::new();
        for group in own.value.iter().flatten().filter(|group| !once.insert(group.value.as_str())) {
            let message = format!("the group `{}` is named twice", group.value);
            faults.push(Diagnostic::at(group.place.as_ref(), message));
        }
        let of: Vec<Option<&str>> = match &own.value {
            Some(_) => once.into_iter().map(Some).collect(),
            None => vec![None],
        };
        let times: Vec<Option<&str>> = match &at.value {
            Some(at) => at.iter().map(|schedule| Some(schedule.value.as_str())).collect(),
            None => vec![None],
        };
        for (group, time) in of.iter().flat_map(|group| times.iter().map(move |time| (*group, *time))) {
            if let Some(first) = seen.insert((&domain.value, group, time), place) {
                let clients = group.map(|group| format!(" and the group `{group}`")).unwrap_or_default();
                let time = time.map(|time| format!(" and the schedule `{time}`")).unwrap_or_default();
                let message = format!("there are two rules for {}{clients}{time}", domain.value);
                faults.push(Diagnostic::at(place, message).also(first, "first here"));
            }
        }
        let addresses = servers.value.iter().map(|server| (server.value.address, server.place.as_ref()));
        check_servers(addresses, opened, faults);
    }
    let of_forwards = forwards.iter().map(|rule| (&rule.servers, &rule.ca_file));
    for (servers, file) in of_forwards.chain(stubs.iter().map(|rule| (&rule.servers, &rule.ca_file))) {
        upstreams::check_authorities(servers.value.iter().map(|server| &server.value), file, faults);
    }
    for rule in forwards.iter().filter(|rule| *rule.trust_ad && rule.validate.value == Some(true)) {
        let message =
            "`trust-ad` and `validate` exclude each other: either the servers validate, or nomen does";
        faults.push(Diagnostic::at(rule.validate.place.as_ref(), message));
    }
    for stub in stubs.iter().filter(|stub| stub.domain.as_name().is_root()) {
        let message = "a stub cannot have the domain \".\": no server is authoritative for all names";
        let fault = Diagnostic::at(stub.domain.place.as_ref(), message);
        faults.push(fault.hint("write [[resolver.forward]] if these servers are resolvers"));
    }
}

/// Reports schedules of a rule without groups, schedules that there are not, and those of other groups.
fn check_schedules(
    groups: &At<Option<Vec<At<String>>>>,
    schedules: &At<Option<Vec<At<String>>>>,
    known: &[NamedSchedule<'_>],
    faults: &mut Vec<Diagnostic>,
) {
    let Some(own) = &schedules.value else { return };
    let Some(groups) = &groups.value else {
        let message = "`schedules` needs `groups`: a schedule is of a group";
        faults.push(Diagnostic::at(schedules.place.as_ref(), message));
        return;
    };
    for schedule in own {
        let (name, place) = (schedule.value.as_str(), schedule.place.as_ref());
        match known.iter().find(|known| known.name == name) {
            None => {
                let fault = Diagnostic::at(place, format!("there is no [[policy.schedule]] named `{name}`"));
                faults.push(match did_you_mean(name, known.iter().map(|known| known.name)) {
                    Some(near) => fault.hint(format!("did you mean \"{near}\"?")),
                    None => fault,
                });
            }
            Some(found) if !groups.iter().any(|group| group.value == found.group) => {
                let of = found.group;
                let message =
                    format!("the schedule `{name}` is of the group `{of}`, which the rule does not name");
                faults.push(Diagnostic::at(place, message));
            }
            Some(_) => {}
        }
    }
}

/// Reports servers named twice, and nomen's own addresses.
pub(super) fn check_servers<'s>(
    servers: impl Iterator<Item = (AddrPort, Option<&'s ConfigPlace>)>,
    opened: &[Opened],
    faults: &mut Vec<Diagnostic>,
) {
    let mut seen = HashSet::new();
    for (server, place) in servers {
        if !seen.insert(server.0) {
            faults.push(Diagnostic::at(place, format!("{server} is named twice")));
        } else if let Some(own) = Opened::of_own(opened, server.0) {
            let message = format!("nomen listens on {server} and would query itself");
            faults.push(Diagnostic::at(place, message).also(own.place(), "listens here"));
        }
    }
}
