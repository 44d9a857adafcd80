//! Keys of `[resolver]` about iteration from the root servers down: where it starts, how it works, and what
//! one client's query may cost.

use std::net::SocketAddr;

use recursion::Domain;
use resolver::{
    BudgetLimits, IterateConfig, IterateRule, Minimisation, Opportunistic, Partition, StartServer,
};
use wire::{Name, NameBuf};

use super::asking::check_servers;
use super::files::HintsFile;
use super::validating::Validating;
use crate::addresses::ServerAddress;
use crate::listen::Opened;
use crate::report::Diagnostic;
use crate::table::keys;
use crate::table::read::At;
use crate::table::value::{Int, Size, Time, Word};

keys! {
    /// Keys about iteration from the root servers down.
    pub struct Iterating {
        /// Resolve names without a rule iteratively: ask the root servers, then the servers that they refer
        /// to, and so on. A `[[resolver.forward]]` for "." is a rule for all names. `false`: names without a
        /// rule are refused.
        live "iterate" iterate: bool = true, example false;
        /// Domains for which no other server is queried: names at and below them get REFUSED, with extended
        /// error 20. A rule for a domain below one of these takes precedence. Zones that nomen serves,
        /// special-use names and `local-data` are answered as usual.
        live "refused-domains" refused: Option<Vec<At<NameBuf>>> = None, example ["secret.example"];
        /// The root servers. The default port is 53. Unset: those of the public DNS, whose current list is
        /// fetched first (RFC 8109). For servers given here no list is fetched: a copy of the root, or a
        /// private root.
        live "root-servers" root_servers: Option<Vec<At<ServerAddress>>> = None,
            example ["192.0.2.55", "2001:db8::55"];
        /// File of root hints, as IANA publishes it: NS records of the root, with the addresses of its
        /// servers. The current list is fetched from these servers. Unset: the built-in hints. It is read
        /// again at a reload; `root-servers` takes precedence.
        live "root-hints" hints: Option<HintsFile> = None, example "/etc/nomen/named.root";
        /// How much of a name each server sees (RFC 9156): "off": all of it; "relaxed": only what it needs,
        /// but the whole name after NXDOMAIN for a part of it; "strict": only what it needs, and NXDOMAIN for
        /// a part means NXDOMAIN for the whole name.
        live "qname-minimisation" minimisation: Minimisation = Minimisation::Relaxed, example "strict";
        /// Query servers over IPv4 in iterative resolution.
        live "iterate-ipv4" ipv4: bool = true, example false;
        /// Query servers over IPv6 in iterative resolution.
        live "iterate-ipv6" ipv6: bool = true, example false;
        /// Query servers at loopback addresses if a delegation leads there, such as another server on this
        /// machine. Otherwise they are not queried, since any zone could make nomen query programs on this
        /// machine, or itself. Loopback addresses in rules, `root-servers` and `root-hints` are always
        /// queried.
        live "iterate-loopback" loopback: bool = false, example true;
        /// Most name servers of one zone that are used, those with addresses in the referral first.
        live "servers-per-zone" servers: Int<usize, 1, 64> = Int(13), example 8;
        /// Most addresses of one name server that are used.
        live "addresses-per-server" addresses: Int<usize, 1, 64> = Int(6), example 4;
        /// Most queries in flight to the servers of one zone.
        live "lookups-per-zone" per_zone: Int<usize, 1, 1_000_000> = Int(2000), example 1000;
        /// Most queries in flight to the servers of one zone while none of them answers.
        live "lookups-per-dead-zone" per_dead_zone: Int<usize, 1, 1_000_000> = Int(20), example 10;
        /// Memory for cached delegations, addresses of their servers, and names that are no zone cuts.
        live "delegations-size" delegations: Size<{ 1 << 20 }, { 4 << 30 }> = Size(32 << 20), example "64MiB";
        /// Most servers whose response time and missing features are cached.
        live "known-servers" known: Int<usize, 100, 1_000_000> = Int(20_000), example 50000;
    }
}

keys! {
    /// Keys about what one client query may cost other servers: all queries it causes, including those for
    /// aliases and for servers' addresses.
    pub struct QueryBudget {
        /// Most queries to other servers for one client query, including those for aliases and for addresses
        /// of servers.
        live "budget-queries" queries: Int<u16, 1, 10_000> = Int(64), example 100;
        /// Most queries to the servers of one zone for one client query.
        live "budget-queries-per-zone" per_zone: Int<u16, 1, 10_000> = Int(16), example 24;
        /// Most bytes of replies of other servers for one client query.
        live "budget-bytes" bytes: Size<4096, { 1 << 30 }> = Size(100_000), example "256KiB";
        /// Longest time for one client query, and the time that its client waits in iterative resolution.
        live "budget-time" time: Time<100, 60_000> = Time::secs(10), example "8s";
        /// Most aliases of one client query whose targets need a lookup of their own.
        live "budget-aliases" aliases: Int<u16, 0, 1000> = Int(11), example 8;
        /// Most lookups of server addresses for one client query that find nothing. One in flight counts
        /// until it has found something.
        live "budget-fruitless" fruitless: Int<u16, 0, 1000> = Int(5), example 4;
        /// Most queries with a part of the name (`qname-minimisation`) for one client query; later ones have
        /// the whole name.
        live "budget-minimised" minimised: Int<u16, 0, 255> = Int(10), example 8;
        /// Longest chain of lookups of server addresses that wait for each other. Each of them also counts
        /// for `budget-fruitless`, so a smaller value there limits the chain.
        live "budget-depth" depth: Int<u8, 0, 64> = Int(7), example 5;
    }
}

impl Word for Minimisation {
    const WORDS: &'static [(&'static str, Self)] =
        &[("off", Self::Off), ("relaxed", Self::Relaxed), ("strict", Self::Strict)];
}

impl QueryBudget {
    fn limits(&self) -> BudgetLimits {
        BudgetLimits {
            queries: self.queries.0,
            queries_per_zone: self.per_zone.0,
            bytes: self.bytes.0,
            time: self.time.0,
            aliases: self.aliases.0,
            fruitless: self.fruitless.0,
            minimised: self.minimised.0,
        }
    }
}

impl Iterating {
    /// Returns the settings of iteration; `everything_else`: names without a rule are iterated.
    pub(super) fn config(&self, budget: &QueryBudget, everything_else: bool) -> IterateConfig {
        IterateConfig {
            own_zones: None,
            rules: if everything_else { vec![self.rule()] } else { Vec::new() },
            budget: budget.limits(),
            minimisation: *self.minimisation,
            servers: self.servers.0,
            addresses: self.addresses.0,
            depth: budget.depth.0,
            lookups_per_zone: self.per_zone.0,
            lookups_per_dead_zone: self.per_dead_zone.0,
            ipv4: *self.ipv4,
            ipv6: *self.ipv6,
            loopback: *self.loopback,
            delegation_bytes: self.delegations.0,
            known_servers: self.known.0,
            opportunistic: Opportunistic::default(),
        }
    }

    /// Returns the rule for iterating from the root.
    pub(super) fn rule(&self) -> IterateRule {
        let Some(own) = &self.root_servers.value else { return self.hinted() };
        let addresses: Vec<SocketAddr> = own.iter().map(|server| server.0.0).collect();
        let servers =
            addresses.into_iter().map(|address| StartServer { name: None, addresses: vec![address] });
        IterateRule { domain: Name::ROOT.to_buf(), servers: servers.collect(), prime: false, copy: None }
    }

    /// Returns the rule with the root servers of the hints file, or the built-in ones.
    fn hinted(&self) -> IterateRule {
        let hints =
            self.hints.value.as_ref().map(|file| file.read.clone()).filter(|servers| !servers.is_empty());
        let built_in = IterateRule::root();
        IterateRule { servers: hints.unwrap_or(built_in.servers), ..built_in }
    }

    /// Returns the domain that is iterated. AD is not trusted: authoritative servers do not validate.
    pub(super) fn domain(&self, validating: &Validating) -> Domain {
        let name = Name::ROOT.to_buf();
        let partition = Partition::SHARED;
        Domain { name, partition, trust_ad: false, validate: validating.validates(name.as_name()) }
    }

    /// Returns the domains for which no server is queried.
    pub(super) fn refused(&self) -> Vec<NameBuf> {
        self.refused.iter().flatten().map(|name| name.value).collect()
    }

    /// Reports refused domains that also have a rule, and the root, which `iterate` turns off.
    pub(super) fn check_refused<'d>(
        &self,
        rules: impl Iterator<Item = &'d At<NameBuf>> + Clone,
        faults: &mut Vec<Diagnostic>,
    ) {
        for name in self.refused.iter().flatten() {
            if name.value.as_name().is_root() {
                let fault = Diagnostic::at(name.place.as_ref(), "`refused-domains` takes no \".\"");
                faults.push(fault.hint("write `iterate = false`, which refuses all names without a rule"));
            } else if rules.clone().any(|rule| rule.as_name().to_lower() == name.as_name().to_lower()) {
                let message = format!("{} is in `refused-domains` and also has a rule", name.value);
                faults.push(Diagnostic::at(name.place.as_ref(), message));
            }
        }
    }

    pub(super) fn check(&self, opened: &[Opened], faults: &mut Vec<Diagnostic>) {
        let servers = self.root_servers.iter().flatten();
        check_servers(servers.map(|server| (server.value.0, server.place.as_ref())), opened, faults);
        if *self.iterate && !*self.ipv4 && !*self.ipv6 {
            let message = "neither `iterate-ipv4` nor `iterate-ipv6` is true: no server can be queried";
            faults.push(Diagnostic::at(self.ipv6.place.as_ref(), message));
        }
    }
}
